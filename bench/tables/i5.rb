# frozen_string_literal: true

Bench.table "i5" do
  title "A thousand and ten thousand slow answers"
  question "What do 1,024 and 10,000 concurrent requests to slow services gain, and what do " \
           "they cost?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014
  claim "A pool of 1,024 fibers for slow remote services, where nobody would open 1,024 threads."
  differs <<~TEXT
    The article has no number for it. Each request is a Net::HTTP.start to `nb delayd`, which answers
    after half a second or after five; all start at once.
  TEXT
  axis :runtime, %w[threads async nb], title: "client"
  axis :requests, [1_024, 10_000], title: "requests at once"
  axis :delay_ms, [500, 5_000], title: "server delay", unit: "ms", quick: [500]
  workload "requests", warm_up: 20
  server :delayd
  patience 90
  lasts 6
  again { |cell| cell[:runtime] == "nb" }
  at_most(3) { |cell, _quick| cell[:delay_ms] > 500 }

  { 500 => "500 ms", 5_000 => "5 s" }.each do |delay, words|
    view "I5 #{words}", title: "Requests per second, answers after #{words}", unit: "req/s",
                        rows: :runtime, columns: :requests, where: { delay_ms: delay },
                        compare: "nb" do
      limit("all at once") { |_result, requests| requests * 1000.0 / delay }
    end
  end
  view "I5 CPU", title: "CPU time per request, answers after 500 ms", unit: "µs", better: :lower,
                 rows: :runtime, columns: :requests, where: { delay_ms: 500 },
                 metric: "cpu_us_per_op", amount: true
end
