# frozen_string_literal: true

Bench.table "s4" do
  title "Web servers with requests of every kind"
  question "What do JSON, many headers, bodies large and small, a stream and a file cost?"
  source article: "itsi-server-benchmarks", author: "Wouter Coppieters", year: 2025,
         setup: "ratios to Puma, one worker, Intel N97"
  claim "3 MB body against Puma: Itsi 0.67×, iodine 0.36×, Falcon 0.26×; a stream of 1,000 " \
        "flushes: Itsi 3.1×, Falcon 0.15×."
  differs <<~TEXT
    64 connections (16 for bodies of 1 MB and more), one core for the server. The stream is an
    `each` of 1,000 lines of 32 bytes. The file has 100,000 bytes and is given as `to_path`; nginx
    serves the same file with sendfile.
  TEXT
  labels = { "json" => "JSON, 1 KB", "headers" => "10 headers", "post_1k" => "POST 1 KB",
             "post_1m" => "POST 1 MB", "big" => "answer of 3 MB", "stream" => "1,000 parts",
             "file" => "file, 100 KB" }
  axis :runtime, %w[puma falcon iodine itsi_server nb_server nginx], title: "server"
  axis :kind, labels.keys, title: "request", labels: labels
  workload "served"
  patience 40
  lasts 8
  skip { |cell| cell[:runtime] == "nginx" && cell[:kind] != "file" }
  again { |cell| cell[:runtime] == "nb_server" }

  view "S4", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :kind,
             compare: "nb_server", scale: :each
  view "S4 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :kind, metric: "cpu_us_per_op", compare: "nb_server",
                 scale: :each, amount: true
end
