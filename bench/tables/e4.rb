# frozen_string_literal: true

Bench.table "e4" do
  title "Ten to a thousand requests at a time"
  question "How many requests per second does one process answer, and within what time 99 of " \
           "100 of them, with 10 to 1,000 at a time that make one query each?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "NeverBlock on Thin with up to 1,000 at a time; the chart is a picture"
  claim "“Similar or slightly better” with up to 1,000 at a time."
  differs "Rails 8.1, PostgreSQL 15, one process with a pool of 12, keep-alive connections of a " \
          "program in C; by time, not by number of requests."
  axis :server, %w[nb falcon puma12 puma5], title: "server", labels: Bench::RAILS_SERVERS
  axis :clients, [10, 50, 100, 200, 500, 1000], title: "at a time", quick: [10, 200, 1000]
  runtime "rails"
  workload "rails", path: "/one"
  again { |cell| cell[:server] == "nb" }

  view "E4", title: "Requests per second", unit: "req/s", rows: :server, columns: :clients,
             compare: "nb", chart: :lines, spread: :log
  view "E4 p99", title: "99 of 100 answered within", unit: "ms", better: :lower, rows: :server,
                 columns: :clients, metric: "p99_ms", compare: "nb", chart: :lines,
                 spread: :log, scale: :log, headline: [1000]
end
