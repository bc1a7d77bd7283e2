# frozen_string_literal: true

Bench.table "timers" do
  title "A hundred thousand timers"
  question "What does a deadline cost while 100 to 100,000 others are pending, and how late do " \
           "sleeps end?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "None: the articles never measured timers. The number of timers grows with the number of " \
        "requests in flight, each of which has at least one."
  differs <<~TEXT
    No published table. The pending deadlines are Timeout blocks, nested a hundred deep in jobs that
    wait; the near ones are Timeout.timeout(60) around nothing, one after the other.
  TEXT
  axis :runtime, %w[threads async carbon itsi nb], title: "runtime"
  axis :timers, [100, 1_000, 10_000, 100_000], title: "pending timers",
                                                quick: [100, 10_000, 100_000]
  workload "timers"
  again { |cell| cell[:runtime] == "nb" }

  view "timers", title: "Set a deadline and take it back", unit: "ns", better: :lower,
                 rows: :runtime, columns: :timers, compare: "nb", chart: :lines, scale: :log,
                 spread: :log
  view "timers late", title: "Lateness of sleeps of 1 ms to 5 ms, 99th percentile", unit: "µs",
                      better: :lower, rows: :runtime, columns: :timers, metric: "late_p99_us",
                      scale: :log
end
