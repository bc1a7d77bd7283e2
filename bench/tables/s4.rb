# frozen_string_literal: true

Bench.table "s4" do
  title "Web servers with requests of every kind"
  question "What do JSON, many headers, a small body and a stream cost?"
  source article: "itsi-server-benchmarks", author: "Wouter Coppieters", year: 2025,
         setup: "ratios to Puma, one worker, Intel N97"
  claim "A stream of 1,000 flushes against Puma: Itsi 3.1×, Falcon 0.15×."
  differs <<~TEXT
    64 connections, one core for the server, one process. The stream is an `each` of 1,000 lines of
    32 bytes; the server decides how they travel.
  TEXT
  labels = { "json" => "JSON, 1 KB", "headers" => "10 headers", "post_1k" => "POST 1 KB",
             "stream" => "1,000 parts" }
  axis :runtime, %w[puma falcon iodine itsi_server nb_server], title: "server"
  axis :kind, labels.keys, title: "request", labels: labels
  workload "served"
  patience 40
  lasts 8

  view "S4", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :kind,
             compare: "nb_server", scale: :each
  view "S4 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", compare: "nb_server",
                 scale: :each, amount: true
end
