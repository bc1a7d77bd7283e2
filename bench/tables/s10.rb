# frozen_string_literal: true

Bench.table "s10" do
  title "Web servers with large bodies"
  question "What do a large upload, a large response and a file cost?"
  source article: "itsi-server-benchmarks", author: "Wouter Coppieters", year: 2025,
         setup: "ratios to Puma, one worker, Intel N97"
  claim "A body of 3 MB against Puma: Itsi 0.67×, iodine 0.36×, Falcon 0.26×."
  differs <<~TEXT
    16 connections, one core for the server, one process. The application reads the whole upload.
    The file is given as `to_path`; nginx serves the same file with sendfile.
  TEXT
  labels = { "post_1m" => "POST 1 MB", "big" => "answer of 3 MB", "file" => "file, 100 KB" }
  axis :runtime, %w[puma falcon iodine itsi_server nb_server nginx], title: "server"
  axis :kind, labels.keys, title: "request", labels: labels
  workload "served", connections: 16
  patience 40
  lasts 8
  skip { |cell| cell[:runtime] == "nginx" && cell[:kind] != "file" }

  view "S10", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :kind,
             compare: "nb_server", scale: :each
  view "S10 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", compare: "nb_server",
                 scale: :each, amount: true
end
