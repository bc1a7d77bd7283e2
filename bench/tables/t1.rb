# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t1" do
  extend Bench::TechEmpower
  title "TechEmpower's plaintext"
  question "How many pipelined hellos per second does a server answer, and what does each cost?"
  tech_empower "plaintext", quick: [256], connections: [64, 256, 1_024]
  differs <<~TEXT
    wrk keeps 16 requests under way on each connection, as theirs does; they go up to 16,384
    connections. The server is held to one core and wrk to the other, with two processes too.
  TEXT
end
