# frozen_string_literal: true

Bench.table "e5" do
  title "The memory of one process, and of as many Pumas as do the same"
  question "What memory do servers take that answer E3's heaviest mix in about the same time?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "One process per core is enough, and takes far less memory than a cluster."
  differs <<~TEXT
    The memory of all its processes after the load, shared pages by their share (PSS): nginx counts,
    PostgreSQL's own processes do not. The Pumas do not share the loaded application, as those of a
    cluster with preloading would in part.
  TEXT
  axis :server, %w[nb falcon puma12 pumas12], title: "server", labels: Bench::RAILS_SERVERS
  axis :every, [10], title: "of 1,000", labels: { 10 => "100 sleep" }
  axis :clients, [200], title: "at a time"
  runtime "rails"
  workload "rails", requests: 1_000
  lasts 40
  patience 240

  where = { clients: 200 }
  view "E5", title: "Memory after 1,000 requests, 100 of which waited a second", unit: "MB",
             better: :lower, rows: :server, columns: :every, where: where, metric: "memory_mb",
             compare: "nb", amount: true
  view "E5 time", title: "and the time they took", unit: "s", better: :lower, rows: :server,
                  columns: :every, where: where, metric: "took_s", compare: "nb"
end
