# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j4" do
  extend Bench::JobTables
  title "Ten thousand jobs that wait for a service"
  question "How long does one worker take for 10,000 jobs that each wait a second for an HTTP " \
           "service and then insert a row?"
  differs <<~TEXT
    As J1, but all rows do the same work. Five threads would take 2,000 s at least.
  TEXT
  jobs("calls", 1000, at_once: [25, 100, 1_000], jobs: 10_000) { |count| count }
  patience 1_000 # the 25 threads' need 400 s at least, and may need twice as much
  lasts 240
  view "J4 time", title: "Time for all of them", unit: "s", better: :lower, rows: :worker,
                  columns: :at_once, metric: "took_s", compare: "nb" do
    limit("if nothing but the waits took time") { |_, at_once| 10_000.0 / at_once }
  end
end
