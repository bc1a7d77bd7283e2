# frozen_string_literal: true

require_relative "shared/tech_empower"

Bench.table "t2" do
  extend Bench::TechEmpower
  title "TechEmpower's JSON"
  question "How many small objects per second does a server send as JSON, serialized anew for " \
           "each request?"
  tech_empower "json", quick: [64], connections: [16, 64, 512]
  differs <<~TEXT
    The json that comes with Ruby. The server is held to one core and wrk to the other, with two
    processes too.
  TEXT
end
