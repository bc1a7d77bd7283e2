# frozen_string_literal: true

# I2 and I3: the same page and the same load over two kinds of store.

# What ab said in 2014, by the metric that is shown.
PUBLISHED_LOOKUPS = {
  "i2" => { store: "mysql2", fibers: { "value" => 1012.44, "p99_ms" => 9_542, "failed" => 0 },
            threads: { "value" => 946.49, "p99_ms" => 10_264, "failed" => 0 } },
  "i3" => { store: "mongo", fibers: { "value" => 1186.09, "p99_ms" => 8_252, "failed" => 0 },
            threads: { "value" => 1489.22, "p99_ms" => 6_511, "failed" => 0 } }
}.freeze

{
  "i2" => lambda do
    title "Ten thousand clients at once, three look-ups in MySQL each"
    question "How fast are 10,000 requests answered that come at once, when each looks three " \
             "rows of 100,000 up?"
    source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
           setup: "ab -c 10000 -n 10000, rainbows 4.6.5, EventMachine 1.0.3, mysql2 0.3.11, " \
                  "Ruby 2.1"
    claim "Fibers need half the memory of threads."
    differs <<~TEXT
      MariaDB 10.11 and ab on one core, the server on the other; 50 connections shared in a queue of
      plain Ruby. mysql2 and trilogy are measured, the article had mysql2 on native threads beside
      EventMachine. Each client asks once, over a connection of its own.
    TEXT
    axis :store, %w[mysql2 trilogy], title: "driver"
    gems "mysql2" => "0.5.7", "trilogy" => "2.13.3"
    server :mariadb
  end,
  "i3" => lambda do
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
    axis :store, %w[redis mongo], title: "driver"
    gems "redis-client" => "0.31.0", "bson" => "5.2.0", "mongo" => "2.26.0"
    server :redis
  end
}.each do |id, facts|
  Bench.table id do
    axis :runtime, %w[puma puma_50 falcon nb_server], title: "server"
    instance_exec(&facts)
    axis :clients, [10_000, 1_000], title: "at once", quick: [10_000]
    workload "lookups"
    patience 180
    lasts 20
    again { |cell| cell[:runtime] == "nb_server" }

    name = id.upcase
    store, fibers, threads = PUBLISHED_LOOKUPS.fetch(id).values
    {
      name => { title: "Requests per second", unit: "req/s", metric: "value" },
      "#{name} p99" => { title: "99 of 100 answers come within", unit: "ms", better: :lower,
                         metric: "p99_ms" },
      "#{name} memory" => { title: "Memory of the server after them", unit: "MB", better: :lower,
                            metric: "memory_mb", amount: true },
      "#{name} failed" => { title: "Requests that failed", unit: "requests", better: :lower,
                            metric: "failed" }
    }.each do |view, options|
      metric = options[:metric]
      view view, rows: :runtime, columns: :store, where: { clients: 10_000 },
                 compare: ("nb_server" unless metric == "failed"), **options do
        next unless fibers.key?(metric)

        published "EventMachine and fibers, 2014", { store => fibers[metric] }
        published "threads, 2014", { store => threads[metric] }, like: "puma"
      end
    end
    view "#{name} c=1000", title: "Requests per second, 1,000 at once", unit: "req/s",
                           rows: :runtime, columns: :store, where: { clients: 1_000 },
                           compare: "nb_server"
  end
end
