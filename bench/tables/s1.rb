# frozen_string_literal: true

Bench.table "s1" do
  title "Web servers saying hello"
  question "How many small responses per second does one core send, and what does each cost?"
  source article: "itsi-server-benchmarks", author: "Wouter Coppieters", year: 2025,
         setup: "oha, 3 s per point, one worker, YJIT, Intel N97, best of several settings; Puma " \
                "6.6.0, Falcon 0.51.1, iodine 0.7.58, Itsi 0.2.18 with threads"
  differs <<~TEXT
    The server is held to one core with taskset, wrk to the other; theirs shared all cores, and
    native servers used more than one. Itsi runs with its fiber scheduler here, every server one
    process. Responses other than 2xx and socket errors are counted. CPU time is that of
    all the server's processes: on a machine that others use too it says more than the rate.
  TEXT
  axis :runtime, %w[puma falcon iodine itsi_server nb_server c_server], title: "server"
  axis :connections, [64, 1_000], title: "connections"
  workload "served", kind: "hello"
  patience 40
  lasts 8
  again { |cell| cell[:runtime] == "nb_server" }

  view "S1", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :connections,
             compare: "nb_server" do
    published "Puma, 2025", { 64 => 14_601 }, like: "puma"
    published "Falcon, 2025", { 64 => 7_825 }, like: "falcon"
    published "iodine, 2025", { 64 => 44_674 }, like: "iodine"
    published "Itsi (threads), 2025", { 64 => 45_818 }, like: "itsi_server"
    derived "NeverBlock, share of plain C (%)", like: "nb_server" do |result, connections|
      ours, limit = %w[nb_server c_server].map do |runtime|
        result.median({ runtime: runtime, connections: connections })
      end
      ours / limit * 100 if ours && limit
    end
  end
  view "S1 CPU", title: "CPU time of the server per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :connections, metric: "cpu_us_per_op",
                 compare: "nb_server", amount: true, headline: true
  view "S1 p99", title: "99 of 100 answers come within", unit: "ms", better: :lower,
                 rows: :runtime, columns: :connections, metric: "p99_ms"
end
