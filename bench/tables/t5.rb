# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t5" do
  extend Bench::TechEmpower
  title "TechEmpower's fortunes"
  question "How many pages does a server make of twelve rows: added to, sorted, escaped, rendered?"
  tech_empower "fortunes", quick: [64], connections: [16, 64, 512]
  differs <<~TEXT
    Twelve sayings of our own with the same traps: a script, quotes, Japanese. Bare Rack renders
    them with ERB.
  TEXT
end
