# frozen_string_literal: true

Bench.table "i3" do
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
  axis :runtime, %w[puma puma_50 falcon nb_server], title: "server"
  axis :store, %w[redis mongo], title: "driver"
  axis :clients, [10_000, 1_000], title: "at once", quick: [10_000]
  workload "lookups"
  gems "redis-client" => "0.31.0", "bson" => "5.2.0", "mongo" => "2.26.0"
  server :redis
  patience 180
  lasts 20
  again { |cell| cell[:runtime] == "nb_server" }

  where = { clients: 10_000 }
  view "I3", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :store,
             where: where, compare: "nb_server" do
    published "EventMachine and fibers, 2014", { "mongo" => 1186.09 }
    published "threads, 2014", { "mongo" => 1489.22 }, like: "puma"
  end
  view "I3 p99", title: "99 of 100 answers come within", unit: "ms", better: :lower,
                 rows: :runtime, columns: :store, where: where, metric: "p99_ms",
                 compare: "nb_server" do
    published "EventMachine and fibers, 2014", { "mongo" => 8_252 }
    published "threads, 2014", { "mongo" => 6_511 }, like: "puma"
  end
  view "I3 memory", title: "Memory of the server after them", unit: "MB", better: :lower,
                    rows: :runtime, columns: :store, where: where, metric: "memory_mb",
                    compare: "nb_server", amount: true
  view "I3 failed", title: "Requests that failed", unit: "requests", better: :lower,
                    rows: :runtime, columns: :store, where: where, metric: "failed" do
    published "both, 2014", { "mongo" => 0 }
  end
  view "I3 c=1000", title: "Requests per second, 1,000 at once", unit: "req/s", rows: :runtime,
                    columns: :store, where: { clients: 1_000 }, compare: "nb_server"
end
