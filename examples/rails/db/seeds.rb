# frozen_string_literal: true

# Pictures are paths of an SVG of 48 × 48.
[
  ["Enamel lantern", 3900, 32, "Burns eleven hours and does not mind the wind.",
   "M18 12h12M24 6v6M17 16h14l2 20H15zM21 21v10M27 21v10M13 40h22"],
  ["Canvas rucksack", 8900, 90, "Waxed by hand; smells of it for a year.",
   "M15 19a9 9 0 0 1 18 0v21H15zM20 10a4 4 0 0 1 8 0M19 27h10v7H19zM11 24v12M37 24v12"],
  ["Brass compass", 4500, 45, "Points where it should, and folds shut.",
   "M24 8a16 16 0 1 0 .01 0zM30 18l-4 8-8 4 4-8z"],
  ["Wool blanket", 6900, 350, "Woven in the valley, warm when wet.",
   "M10 12h28v24H10zM10 18h28M10 24h28M10 30h28M14 36v5M20 36v5M28 36v5M34 36v5"],
  ["Tin kettle", 2900, 190, "A litre, four minutes, one whistle.",
   "M13 22h20l3 17H10zM20 22v-4h6v4M34 28l7-7M13 22a10 12 0 0 1 20 0"],
  ["Folding map", 1400, 130, "Every path within a day's walk of the harbour.",
   "M8 13l10-4 12 4 10-4v26l-10 4-12-4-10 4zM18 9v26M30 13v26"],
  ["Hill boots", 14_900, 18, "Stitched, not glued. Comes with spare laces.",
   "M15 8h11v15l12 6v9H13V8zM13 34h25M26 13h-6M26 18h-6"],
  ["Red umbrella", 3200, 0, "Large enough for two who like each other.",
   "M24 9v28a4 4 0 0 1-8 0M6 25a18 18 0 0 1 36 0zM24 4v5"]
].each_with_index do |(name, cents, hue, description, picture), index|
  product = Product.create!(name: name, picture: picture, cents: cents, hue: hue,
                            description: description)
  ["Better than the old one.", "Arrived the next day.", "My sister wants one too."]
    .each_with_index { |text, n| product.reviews.create!(text: text, stars: 5 - (index * n % 3)) }
end
