# frozen_string_literal: true

Bench.table "c4" do
  title "How many fibers for twelve connections"
  question "How does the number of fibers, or threads, that share twelve connections change the " \
           "time of the same queries?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "The result is “a bit sensitive” to the size of the fiber pool; no numbers."
  differs <<~TEXT
    50 long queries of `pg_sleep(0.01)` and ten short ones after each. 550 queries, so that more
    than 550 jobs bring nothing.
  TEXT
  axis :runtime, %w[threads async nb], title: "client"
  axis :workers, [1, 2, 5, 12, 25, 50, 100, 250, 500, 1_000], title: "jobs",
                                                             quick: [1, 12, 100, 1_000]
  workload "pg_mix", kind: "sleep", long: 50, mult: 10
  gems "pg" => "1.7.0"
  server :postgresql
  patience 60
  lasts 2
  again { |cell| cell[:runtime] == "nb" }

  view "C4", title: "Time for 550 queries", unit: "s", better: :lower, rows: :runtime,
             columns: :workers, compare: "nb", chart: :lines, spread: :log do
    limit("50 × 10 ms on twelve connections") { |_result, workers| 0.5 / [workers, 12].min }
  end
  view "C4 CPU", title: "CPU time of the client", unit: "s", better: :lower, rows: :runtime,
                 columns: :workers, metric: "client_s", chart: :lines, spread: :log, amount: true
end
