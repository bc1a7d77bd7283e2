# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t4" do
  extend Bench::TechEmpower
  title "TechEmpower's queries"
  question "How many requests per second remain when each looks up 1 to 20 rows, one after the " \
           "other?"
  tech_empower "queries", quick: [1, 20], queries: [1, 5, 10, 15, 20]
  differs <<~TEXT
    64 connections of wrk, theirs has 512. pg and PostgreSQL 15 with a prepared statement, 50
    connections in a queue of plain Ruby, no pipeline to the database.
  TEXT
end
