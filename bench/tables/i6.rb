# frozen_string_literal: true

Bench.table "i6" do
  title "One page, several services"
  question "How long does a page take that calls 1 to 8 services of 20 ms?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014
  claim "With micro-services one request becomes several: fibers ask them all at once. No numbers."
  differs <<~TEXT
    One page at a time, a new connection to `nb delayd` for every call.
  TEXT
  axis :runtime, %w[blocking threads async nb], title: "client"
  axis :services, [1, 2, 4, 8], title: "services", quick: [1, 8]
  workload "back_ends"
  server :delayd
  patience 40
  again { |cell| cell[:runtime] == "nb" }

  view "I6", title: "Time for a page", unit: "ms", better: :lower, rows: :runtime,
             columns: :services, compare: "nb" do
    limit("the slowest service") { 20 }
  end
  view "I6 CPU", title: "CPU time for a page", unit: "µs", better: :lower, rows: :runtime,
                 columns: :services, metric: "cpu_us_per_op", amount: true
end
