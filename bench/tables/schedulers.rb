# frozen_string_literal: true

Bench.table "schedulers" do
  title "Workloads under every scheduler"
  question "How much of the machine is left for the work when different schedulers run the same " \
           "plain Ruby code?"
  source article: "carbon_fiber 0.2.1, README", author: "Yaroslav Markin", year: 2026,
         setup: "EC2 c7a.2xlarge, 8 vCPU, Ruby 4.0.2 with YJIT, io_uring, median of 5 runs of " \
                "about 80 ms; async 2.38.1, itsi-scheduler 0.2.22"
  differs <<~TEXT
    Our own programs in the manner of theirs: samples of 5 s instead of 80 ms, every byte compared,
    every sleep checked not to end early, the pool and the fan-out built from Ruby's own Queue, the
    HTTP server of the client workloads on the same thread (theirs: native threads). Three
    further rows put the other end into a C program of its own, so that only the server, or only
    Net::HTTP, is measured. The
    sleep-bound workloads cannot exceed the limit printed below them.
  TEXT
  labels = { "tcp_echo" => "TCP echo", "http_server" => "HTTP server", "net_http" => "Net::HTTP",
             "download" => "download 256 KiB", "connection_pool" => "connection pool",
             "fan_out" => "fan-out", "timeouts" => "cascading timeouts", "churn" => "task churn",
             "tcp_echo_external" => "TCP echo, C clients",
             "http_server_external" => "HTTP server, C clients",
             "net_http_external" => "Net::HTTP, C server" }
  axis :runtime, %w[threads async carbon itsi nb c], title: "scheduler"
  axis :workload, labels.keys, title: "workload", labels: labels,
                               quick: labels.keys - %w[download]
  workload "tcp_echo", clients: 20
  server :c_http
  patience 40
  in_c = %w[tcp_echo http_server tcp_echo_external http_server_external]
  skip { |cell| cell[:runtime] == "c" && !in_c.include?(cell[:workload]) }
  again { |cell| cell[:runtime] == "nb" }

  view "schedulers", title: "Operations per second", unit: "/s", rows: :runtime,
                     columns: :workload, compare: "nb", scale: :each do
    published "carbon_fiber, 2026",
              { "tcp_echo" => 52_973, "http_server" => 49_380, "net_http" => 19_500,
                "download" => 8_426, "connection_pool" => 4_967, "fan_out" => 2_022,
                "timeouts" => 4_668 }, like: "carbon"
    published "async, 2026",
              { "tcp_echo" => 32_330, "http_server" => 30_823, "net_http" => 16_721,
                "download" => 7_062, "connection_pool" => 4_612, "fan_out" => 1_923,
                "timeouts" => 4_414 }, like: "async"
    published "itsi-scheduler, 2026",
              { "tcp_echo" => 32_046, "http_server" => 30_864, "connection_pool" => 4_954,
                "fan_out" => 2_094 }, like: "itsi"
    # 5 slots of 1 ms; ten coordinators and the mean of the longest of five sleeps; 20 jobs of which
    # three in ten take 10 ms and seven 2 ms.
    sleep_bound = { "connection_pool" => 5_000.0, "fan_out" => 10_000 / (1 + (4 * 39 / 42.0)),
                    "timeouts" => 20_000 / 4.4 }
    limit("bound by its sleeps") { |_result, workload| sleep_bound[workload] }
  end
  view "schedulers CPU", title: "CPU time per operation", unit: "µs", better: :lower,
                         rows: :runtime, columns: :workload, metric: "cpu_us_per_op",
                         compare: "nb", scale: :each, amount: true
end
