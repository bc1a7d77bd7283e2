# frozen_string_literal: true

Bench.table "d2" do
  title "MySQL's drivers"
  question "How long do 120 queries of 100 ms take over twelve connections, and may anything " \
           "else run meanwhile?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
         setup: "mysql2 0.3.11 in a pool of threads, because the driver blocks"
  claim "The query is written, its socket watched by EventMachine, and the result read in a thread."
  differs <<~TEXT
    mysql2 0.5.7 and trilogy 2.13 on MariaDB 10.11, twelve connections made in the measured time.
    Twelve connections need ten turns of 100 ms. Under async, mysql2 has no cure: its queries
    wait, but connecting and fetching large results block the thread.
  TEXT
  axis :runtime, %w[threads async nb], title: "client"
  axis :driver, %w[mysql2 trilogy], title: "driver"
  workload "mysql_sleep"
  gems "mysql2" => "0.5.7", "trilogy" => "2.13.3"
  server :mariadb
  patience 60
  lasts 3
  again { |cell| cell[:runtime] == "nb" }

  view "D2", title: "Time for 120 queries of 100 ms", unit: "s", better: :lower, rows: :runtime,
             columns: :driver, compare: "nb" do
    limit("ten turns of 100 ms") { 1.0 }
  end
  view "D2 late", title: "A job that wakes every 5 ms was late by", unit: "ms", better: :lower,
                  rows: :runtime, columns: :driver, metric: "late_ms"
end
