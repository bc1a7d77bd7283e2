# frozen_string_literal: true

Bench.table "pages" do
  title "Pages that compute"
  question "How long do pages take that query a database often and compute in between, when the " \
           "core is saturated?"
  source article: "none: what the articles leave out", author: "NeverBlock", year: 2026
  differs <<~TEXT
    Light pages of 20 queries with 1.8 ms of CPU time after each, every 20th waits half a second
    instead; one client asks for reports of 400 queries only. One process on one core with 12
    connections, PostgreSQL and the clients on the other.
  TEXT
  axis :runtime, %w[puma puma_12 falcon nb_server], title: "server"
  axis :clients, [5, 19, 50, 200], title: "clients", quick: [19]
  workload "pages"
  server :postgresql
  patience 180
  lasts 60

  { "report_ms" => ["Half of the reports come within", "Pages"],
    "p99_ms" => ["99 of 100 light pages come within", "Pages p99"] }.each do |metric, (name, id)|
    view id, title: name, unit: "ms", better: :lower, rows: :runtime, columns: :clients,
             metric: metric, compare: "nb_server"
  end
  view "Pages rate", title: "Requests per second", unit: "req/s", rows: :runtime,
                     columns: :clients, compare: "nb_server"
end
