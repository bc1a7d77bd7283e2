# frozen_string_literal: true

Bench.table "c5" do
  title "A web server whose requests ask a long question and many short ones"
  question "How many requests per second does one process answer when each makes one query of 2 " \
           "ms and ten that take no time?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)",
         year: 2008, setup: "an HTTP server on EventMachine, Ruby 1.9"
  claim "About 800 requests per second with NeverBlock and about 500 without."
  differs <<~TEXT
    `nb serve` and Puma with one thread, and Puma with its defaults; the same application, a pool of 50
    connections, 50 clients, the server on one core. The long query is `pg_sleep(0.002)`.
  TEXT
  axis :runtime, %w[puma_1 puma nb_server], title: "server"
  axis :kind, %w[mix], title: "request", labels: { "mix" => "one long, ten short" }
  workload "served", pool: 50, connections: 50
  server :postgresql
  patience 60
  lasts 8
  again { |cell| cell[:runtime] == "nb_server" }

  view "C5", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :kind,
             compare: "nb_server" do
    published "blocking, 2008", [500], like: "puma_1"
    published "NeverBlock, 2008", [800], like: "nb_server"
  end
  view "C5 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", compare: "nb_server",
                 amount: true
end
