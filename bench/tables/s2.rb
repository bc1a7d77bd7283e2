# frozen_string_literal: true

Bench.table "s2" do
  title "Web servers whose application sleeps"
  question "How many requests per second does a server answer when each waits 10 ms, as for a " \
           "database?"
  source article: "falcon-benchmark", author: "socketry", year: 2026,
         setup: "8 processes each on 8 CPUs, wrk at 64 and 512 connections"
  differs <<~TEXT
    One process on one core; theirs have eight of each, their 512 connections stand in our column of
    1,000. `sleep 0.01` in the application: no server can give more than connections / 10 ms.
    Puma is shown with its defaults and with 50 threads, iodine with 5 and with 50.
  TEXT
  axis :runtime, %w[puma puma_50 falcon iodine iodine_50 itsi_server nb_server], title: "server"
  axis :connections, [64, 1_000], title: "connections"
  workload "served", kind: "sleep"
  patience 40
  lasts 8
  again { |cell| cell[:runtime] == "nb_server" }

  view "S2", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :connections,
             compare: "nb_server" do
    published "Falcon, 8 processes, 2026", { 64 => 6_196, 1_000 => 49_570 }, like: "falcon"
    published "Puma, 8 × 5 threads, 2026", { 64 => 3_899, 1_000 => 3_897 }, like: "puma"
    limit("connections / 10 ms") { |_result, connections| connections / 0.01 }
  end
  view "S2 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :connections, metric: "cpu_us_per_op",
                 compare: "nb_server", amount: true
  view "S2 p99", title: "99 of 100 answers come within", unit: "ms", better: :lower,
                 rows: :runtime, columns: :connections, metric: "p99_ms"
end
