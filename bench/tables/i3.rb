# frozen_string_literal: true

require_relative "shared/look_ups"

Bench.table "i3" do
  extend Bench::LookUps
  title "Ten thousand clients at once, three look-ups in Redis or MongoDB each"
  question "How fast are 10,000 requests answered that come at once, when each looks three of " \
           "100,000 things up by a driver in plain Ruby?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
         setup: "ab -c 10000 -n 10000, rainbows 4.6.5, EventMachine 1.0.3, Mongoid, Ruby 2.1"
  claim "Fibers were about 20 % slower than threads, and needed half the memory."
  differs <<~TEXT
    Redis 7.0 by redis-client; and the mongo gem with a server of ours that speaks MongoDB's
    protocol, as Debian has none: a program in Ruby that shares a core with ab, and bounds what the
    mongo column can show. The server under test has the other core, and 50 connections.
  TEXT
  axis :runtime, Bench::LookUps::SERVERS, title: "server"
  axis :store, %w[redis mongo], title: "driver"
  gems "redis-client" => "0.31.0", "bson" => "5.2.0", "mongo" => "2.26.0"
  server :redis
  # What ab said in 2014, by the metric that is shown.
  look_ups store: "mongo",
           fibers: { "value" => 1186.09, "p99_ms" => 8_252, "failed" => 0 },
           threads: { "value" => 1489.22, "p99_ms" => 6_511, "failed" => 0 }
end
