# frozen_string_literal: true

Bench.table "s9" do
  title "One line in Puma's configuration"
  question "What does `plugin :neverblock` gain, and how far is it behind NeverBlock's own server?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008, setup: "one line in Thin's environment"
  claim "A `require` in production.rb and an adapter's name: the server of the day becomes one " \
        "that does not block."
  differs <<~TEXT
    Thin is archived; Puma is what Rails ships. Its plugin runs requests in 256 fibers on one thread
    instead of five threads. Same application, one core, 64 connections.
  TEXT
  labels = { "hello" => "hello", "sleep" => "sleep 10 ms", "sql" => "three queries of 2 ms" }
  axis :runtime, %w[puma nb_puma nb_server], title: "server"
  axis :kind, labels.keys, title: "request", labels: labels
  workload "served", pool: 50
  server :postgresql
  patience 60
  lasts 8
  again { |cell| cell[:runtime] == "nb_puma" }

  view "S9", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :kind,
             compare: "nb_puma", scale: :each
  view "S9 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", scale: :each,
                 amount: true, headline: true
end
