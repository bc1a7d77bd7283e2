# frozen_string_literal: true

Bench.table "s3" do
  title "Web servers with three queries per request"
  question "How many requests per second does a server answer when each makes three queries of " \
           "2 ms to PostgreSQL?"
  source article: "http_servers_bench", author: "Oleg Ermolaev", year: 2025,
         setup: "two CPUs per container, pool of 20 per worker, 50 connections, oha"
  differs <<~TEXT
    One core for the server (theirs: two processes on two), wrk and PostgreSQL on the other. Each
    request takes one of 50 connections of the same pool (a Queue of plain pg connections) and runs
    `select pg_sleep(0.002)` three times. No more than 50 / 6 ms = 8,333 requests per second are
    possible. Puma is shown with its defaults and with 50 threads.
  TEXT
  axis :runtime, %w[puma puma_50 falcon iodine iodine_50 itsi_server nb_server], title: "server"
  axis :connections, [50, 500], title: "connections"
  workload "served", kind: "sql", pool: 50
  server :postgresql
  patience 60
  lasts 8
  again { |cell| cell[:runtime] == "nb_server" }

  view "S3", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :connections,
             compare: "nb_server" do
    published "Puma, two processes, 2025", { 50 => 3_179 }, like: "puma"
    published "Falcon, two processes, 2025", { 50 => 4_943 }, like: "falcon"
    published "iodine (own fiber pg), 2025", { 50 => 3_543 }, like: "iodine"
    limit("50 connections / 6 ms") { 50 / 0.006 }
  end
  view "S3 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :connections, metric: "cpu_us_per_op",
                 compare: "nb_server", amount: true
  view "S3 p99", title: "99 of 100 answers come within", unit: "ms", better: :lower,
                 rows: :runtime, columns: :connections, metric: "p99_ms" do
    published "Puma, 2025", { 50 => 68 }, like: "puma"
    published "Falcon, 2025", { 50 => 14 }, like: "falcon"
    published "iodine, 2025", { 50 => 45 }, like: "iodine"
  end
end
