# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t5" do
  extend Bench::TechEmpower
  title "TechEmpower's fortunes"
  question "How many pages per second does a server make from twelve rows: add one, sort, " \
           "escape, render?"
  tech_empower "fortunes", quick: [64], connections: [16, 64, 512]
  differs <<~TEXT
    Twelve sayings of our own with the same traps: a script, quotes, Japanese. Bare Rack renders
    them with ERB.
  TEXT
end
