# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t3" do
  extend Bench::TechEmpower
  title "TechEmpower's single query"
  question "How many rows per second does a server look up and send, one per request?"
  tech_empower "db", quick: [64], connections: [16, 64, 512]
  differs <<~TEXT
    pg and PostgreSQL 15 with a prepared statement; 50 connections in a queue of plain Ruby.
    PostgreSQL runs where wrk does, on the other core, theirs has a machine of its own. CPU time is
    that of the server's processes.
  TEXT
end
