# frozen_string_literal: true

Bench.table "rails" do
  title "Rails where nothing is slow, and where three services are asked"
  question "How many requests per second does one process answer when the database answers at " \
           "once, and how long does a request take that calls three services of 50 ms " \
           "concurrently?"
  source article: "none: what the articles leave out", author: "NeverBlock", year: 2026
  differs <<~TEXT
    Rails 8.1 in production mode, PostgreSQL 15, a pool of 12, 50 keep-alive clients. The three calls
    are Net::HTTP to `nb delayd`, at once by what each server brings: NB.gather, Async, threads. 200
    clients that do not pause keep a process busy: what waits there, waits for the processor.
  TEXT
  axis :server, %w[nb falcon puma12 puma5], title: "server", labels: Bench::RAILS_SERVERS
  axis :path, %w[/one /count /calls], title: "action",
              labels: { "/one" => "select 1", "/count" => "select count(*)", "/calls" => "3 calls" }
  axis :clients, [50, 10, 200], title: "at a time"
  runtime "rails"
  workload "rails"
  skip { |cell| (cell[:path] == "/calls") == (cell[:clients] == 50) }
  again { |cell| cell[:server] == "nb" }

  view "Rails", title: "Requests per second", unit: "req/s", rows: :server, columns: :path,
                where: { clients: 50 }, compare: "nb"
  view "Rails CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                    rows: :server, columns: :path, where: { clients: 50 },
                    metric: "cpu_us_per_op", compare: "nb", amount: true
  view "Rails calls", title: "Three services of 50 ms asked: half are answered within", unit: "ms",
                      better: :lower, rows: :server, columns: :clients,
                      where: { path: "/calls" }, metric: "p50_ms", compare: "nb"
end
