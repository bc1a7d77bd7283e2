# frozen_string_literal: true

require_relative "shared/look_ups"

Bench.table "i3" do
  extend Bench::LookUps
  title "Ten thousand clients at once, three look-ups in Redis or MongoDB each"
  question "How fast does a server answer 10,000 requests that come at once, when each looks up " \
           "three of 100,000 entries with a driver in plain Ruby?"
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
  # bson loads bigdecimal and does not ask for it; from 3.4 on, Ruby has it as a gem only.
  gems "redis-client" => "0.31.0", "bigdecimal" => "4.1.3", "bson" => "5.2.0", "mongo" => "2.26.0"
  server :redis
  # What ab said in 2014, by the metric that is shown.
  look_ups store: "mongo",
           fibers: { "value" => 1186.09, "failed" => 0,
                     **shares_of(4_162, 5_298, 6_282, 6_909, 7_671, 7_984, 8_183, 8_252, 8_316) },
           threads: { "value" => 1489.22, "failed" => 0,
                      **shares_of(3_293, 4_331, 4_954, 5_229, 5_799, 6_261, 6_435, 6_511, 6_632) }
end
