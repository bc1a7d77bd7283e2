# frozen_string_literal: true

Bench.table "i8" do
  title "Keeping connections"
  question "How many small GETs per second does Net::HTTP make with a new connection each time, " \
           "with one that is kept, and with shared ones?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014
  claim "HTTP with keep-alive is about four times as fast as without."
  differs <<~TEXT
    Twenty jobs on loopback, where a new connection costs no round trip over a network: what is seen
    is its CPU time alone. The server is a C program. Shared connections are those of
    `NB::HTTP.persistent`, taken and given back for every request.
  TEXT
  labels = { "new" => "new each time", "kept" => "kept by the job", "shared" => "shared" }
  axis :runtime, %w[blocking threads async nb], title: "client"
  axis :how, labels.keys, title: "connection", labels: labels
  workload "keep_alive"
  server :c_http
  patience 40
  skip { |cell| cell[:how] == "shared" && cell[:runtime] != "nb" }
  again { |cell| cell[:runtime] == "nb" }

  view "I8", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :how,
             compare: "nb"
  view "I8 CPU", title: "CPU time of the client per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :how, metric: "cpu_us_per_op", compare: "nb",
                 amount: true
  view "I8 gain", title: "Kept against new", unit: "×", rows: :runtime, columns: :how,
                  measured: false do
    %w[blocking threads nb].each do |runtime|
      derived Bench.runtimes[runtime].label, like: runtime do |result, how|
        news, now = ["new", how].map { |one| result.median({ runtime: runtime, how: one }) }
        now / news if news && now && how != "new"
      end
    end
    published "2014", { "kept" => 4 }, like: "nb"
  end
end
