# frozen_string_literal: true

module Apps
  # Removes from a page what is meant to differ from one request to the next, and replaces the
  # visitor's name by one word. If the rest is not the same for all visitors, something is wrong.
  class Masks
    EVERYWHERE = {
      /(name="authenticity_token" value=")[^"]*/ => '\1-',
      /(value=")[^"]*("[^>]* name="authenticity_token")/ => '\1-\2',
      /(<meta name="csrf-token" content=")[^"]*/ => '\1-',
      /(nonce(?:="|" content="))[^"]*/ => '\1-',
      %r{https?://127\.0\.0\.1(:\d+)?} => "HOST",
      /\b(?:less than (?:a|\d+)|about \d+|half|an?|\d+) (?:second|minute)s?\b/ => "a moment",
      /(datetime="|title=")\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^"]*/ => '\1-'
    }.freeze

    # @return [String] both texts, from shortly before the first difference
    def self.difference(one, other)
      place = one.each_char.zip(other.each_char).index { |char, another| char != another }
      start = [(place || one.size) - 40, 0].max
      [one, other].map { |text| text[start, 120].inspect }.join(" became ")
    end

    def initialize(application) = @masks = EVERYWHERE.merge(application.masks)

    # @return [String]
    def apply(body, visitor)
      @masks.reduce(body) { |text, (pattern, word)| text.gsub(pattern, word) }
        .gsub(/#{visitor.name}/i, "VISITOR")
    end
  end
end
