# frozen_string_literal: true

Bench.table "i2" do
  title "Ten thousand clients at once, three look-ups in MySQL each"
  question "How fast are 10,000 requests answered that come at once, when each looks three rows " \
           "of 100,000 up?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
         setup: "ab -c 10000 -n 10000, rainbows 4.6.5, EventMachine 1.0.3, mysql2 0.3.11, Ruby 2.1"
  claim "Fibers need half the memory of threads."
  differs <<~TEXT
    MariaDB 10.11 and ab on one core, the server on the other; 50 connections shared in a queue of
    plain Ruby. mysql2 and trilogy are measured, the article had mysql2 on native threads beside
    EventMachine. Each client asks once, over a connection of its own.
  TEXT
  axis :runtime, %w[puma puma_50 falcon nb_server], title: "server"
  axis :store, %w[mysql2 trilogy], title: "driver"
  axis :clients, [10_000, 1_000], title: "at once", quick: [10_000]
  workload "lookups"
  gems "mysql2" => "0.5.7", "trilogy" => "2.13.3"
  server :mariadb
  patience 180
  lasts 20
  again { |cell| cell[:runtime] == "nb_server" }

  where = { clients: 10_000 }
  view "I2", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :store,
             where: where, compare: "nb_server" do
    published "EventMachine and fibers, 2014", { "mysql2" => 1012.44 }
    published "threads, 2014", { "mysql2" => 946.49 }, like: "puma"
  end
  view "I2 p99", title: "99 of 100 answers come within", unit: "ms", better: :lower,
                 rows: :runtime, columns: :store, where: where, metric: "p99_ms",
                 compare: "nb_server" do
    published "EventMachine and fibers, 2014", { "mysql2" => 9_542 }
    published "threads, 2014", { "mysql2" => 10_264 }, like: "puma"
  end
  view "I2 memory", title: "Memory of the server after them", unit: "MB", better: :lower,
                    rows: :runtime, columns: :store, where: where, metric: "memory_mb",
                    compare: "nb_server", amount: true
  view "I2 failed", title: "Requests that failed", unit: "requests", better: :lower,
                    rows: :runtime, columns: :store, where: where, metric: "failed" do
    published "both, 2014", { "mysql2" => 0 }
  end
  view "I2 c=1000", title: "Requests per second, 1,000 at once", unit: "req/s", rows: :runtime,
                    columns: :store, where: { clients: 1_000 }, compare: "nb_server"
end
