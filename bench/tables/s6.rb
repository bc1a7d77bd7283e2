# frozen_string_literal: true

Bench.table "s6" do
  title "Ten thousand connections to a web server"
  question "How much memory do idle keep-alive connections take, and what happens when 10,000 " \
           "requests come at once?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
         setup: "ab -c 10000 -n 10000, MySQL behind it, Ruby 2.1, rainbows 4.6.5 and EventMachine"
  differs <<~TEXT
    Each connection asks once and stays open; memory is the growth of the proportional set size of
    all the server's processes. Then `ab -c 10000 -n 10000` for a hello (theirs: three queries on
    MySQL), without keep-alive: failed requests are shown apart.
  TEXT
  axis :runtime, %w[puma falcon iodine itsi_server nb_server], title: "server"
  axis :waiting, [1_000, 10_000], title: "connections"
  workload "idle_connections"
  patience 90
  lasts 12
  at_most(2) { |_cell, quick| quick }

  view "S6", title: "Memory that idle connections add", unit: "MB", better: :lower,
             rows: :runtime, columns: :waiting, amount: true, cpu: false
  view "S6 storm", title: "ab with all of them at once", unit: "req/s", rows: :runtime,
                   columns: :waiting, metric: "storm_rate" do
    published "EventMachine and MySQL, 2014", { 10_000 => 1012.44 }, like: "falcon"
    published "threads and MySQL, 2014", { 10_000 => 946.49 }, like: "puma"
  end
  view "S6 failed", title: "of them failed", unit: "requests", better: :lower, rows: :runtime,
                    columns: :waiting, metric: "storm_failed" do
    published "both, 2014", { 10_000 => 0 }
  end
end
