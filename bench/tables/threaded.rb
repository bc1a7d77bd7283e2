# frozen_string_literal: true

Bench.table "threaded" do
  title "A loop in a process with other threads"
  question "What do requests cost, and how long do other threads wait for their turn, when the " \
           "server's threads run in the same process as the loop?"
  source article: "none: what the articles leave out", author: "NeverBlock", year: 2026
  differs <<~TEXT
    Twenty clients with Net::HTTP and keep-alive, and a server with a thread for each connection, so
    that all compete for Ruby's lock. One more thread sleeps for a millisecond again and again.
  TEXT
  labels = { "threaded_server" => "small answers", "threaded_download" => "1 MB" }
  axis :runtime, %w[threads async carbon nb], title: "clients run on"
  axis :workload, labels.keys, title: "answer", labels: labels
  workload "threaded_server"
  again { |cell| cell[:runtime] == "nb" }

  view "threaded", title: "Requests per second", unit: "req/s", rows: :runtime,
                   columns: :workload, compare: "nb", scale: :each
  view "threaded CPU", title: "CPU time of the process per request", unit: "µs", better: :lower,
                       rows: :runtime, columns: :workload, metric: "cpu_us_per_op",
                       compare: "nb", scale: :each, amount: true
  view "threaded late", title: "99 of 100 sleeps of 1 ms in another thread end at most this late",
                        unit: "ms", better: :lower, rows: :runtime, columns: :workload,
                        metric: "late_ms", compare: "nb"
end
