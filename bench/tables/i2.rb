# frozen_string_literal: true

require_relative "shared/look_ups"

Bench.table "i2" do
  extend Bench::LookUps
  title "Ten thousand clients at once, three look-ups in MySQL each"
  question "How fast does a server answer 10,000 requests that come at once, when each looks up " \
           "three of 100,000 rows?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014,
         setup: "ab -c 10000 -n 10000, rainbows 4.6.5, EventMachine 1.0.3, mysql2 0.3.11, " \
                "Ruby 2.1"
  claim "Fibers need half the memory of threads."
  differs <<~TEXT
    MariaDB 10.11 and ab on one core, the server on the other; 50 connections shared in a queue of
    plain Ruby. mysql2 and trilogy are measured; the article read mysql2's results in native threads
    beside EventMachine, our row of EventMachine in its loop. Each client asks once, over a connection of its own.
  TEXT
  axis :runtime, [*Bench::LookUps::SERVERS, "thin_em"], title: "server"
  axis :store, %w[mysql2 trilogy], title: "driver"
  skip { |cell| cell[:runtime] == "thin_em" && cell[:store] != "mysql2" }
  gems "mysql2" => "0.5.7", "trilogy" => "2.13.3"
  server :mariadb
  # What ab said in 2014, by the metric that is shown.
  look_ups store: "mysql2",
           fibers: { "value" => 1012.44, "failed" => 0,
                     **shares_of(5_012, 6_487, 7_330, 7_792, 8_708, 9_157, 9_446, 9_542, 9_723) },
           threads: { "value" => 946.49, "failed" => 0,
                      **shares_of(5_522, 7_005, 7_940, 8_399, 9_376, 9_938, 10_212, 10_264,
                                  10_315) }
end
