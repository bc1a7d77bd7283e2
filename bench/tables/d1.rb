# frozen_string_literal: true

Bench.table "d1" do
  title "Queries per second through a pool"
  question "How many small queries per second does one process make through twelve connections, " \
           "with twelve jobs and with a thousand, and how many queries of 2 ms through fifty?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "A pool of twelve connections and a hundred fibers; times only, see C3."
  differs <<~TEXT
    pg 1.7 on PostgreSQL 15 over loopback, the pool is a Queue. Where a hundred jobs share 50
    connections, each asks three times for `pg_sleep(0.002)`.
  TEXT
  labels = { "twelve" => "select 1, 12 jobs", "thousand" => "select 1, 1,000 jobs",
             "three" => "three of 2 ms, 100 jobs" }
  axis :runtime, %w[blocking threads async nb], title: "client"
  axis :kind, labels.keys, title: "queries", labels: labels
  workload "pg_rate"
  gems "pg" => "1.7.0"
  server :postgresql
  patience 60
  skip { |cell| cell[:runtime] == "blocking" && cell[:kind] != "twelve" }
  again { |cell| cell[:runtime] == "nb" }

  view "D1", title: "Queries per second", unit: "/s", rows: :runtime, columns: :kind,
             compare: "nb", scale: :each do
    limit("50 connections / 2 ms") { |_result, kind| 25_000 if kind == "three" }
  end
  view "D1 CPU", title: "CPU time of the client per query", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", compare: "nb",
                 scale: :each, amount: true
end
