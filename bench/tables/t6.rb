# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t6" do
  extend Bench::TechEmpower
  title "TechEmpower's updates"
  question "How many requests per second remain when each reads 1 to 20 rows and writes each?"
  tech_empower "updates", quick: [1, 20], queries: [1, 5, 10, 15, 20]
  differs <<~TEXT
    64 connections of wrk, theirs has 512. One `update` per row, in the order of their numbers, each
    its own transaction; PostgreSQL does not wait for its disk (fsync is off).
  TEXT
end
