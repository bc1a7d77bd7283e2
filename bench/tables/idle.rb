# frozen_string_literal: true

Bench.table "idle" do
  title "Doing nothing"
  question "How much CPU time does a runtime use while all of its jobs wait?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "Of a database client inside an event loop that polls with select: “It works OK but is a " \
        "cpu hog.”"
  differs <<~TEXT
    No published table. Jobs wait on sockets for two seconds in which nothing comes; in the second
    and third column one job wakes every 20 ms or 2 ms (some schedulers spin when a timer is near).
  TEXT
  axis :runtime, %w[threads async carbon itsi nb], title: "runtime"
  axis :next_timer_ms, [10_000, 20, 2], title: "a timer every", unit: "ms",
                                        labels: { 10_000 => "never" }
  workload "idle", waiting: 100
  lasts 2.5
  again { |cell| cell[:runtime] == "nb" }

  view "idle", title: "CPU time per second", unit: "ms", better: :lower, rows: :runtime,
               columns: :next_timer_ms, compare: "nb", amount: true
end
