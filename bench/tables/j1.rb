# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j1" do
  extend Bench::JobTables
  title "Jobs that wait for a service"
  question "How many jobs does one worker do per second that each wait a second for an HTTP " \
           "service and then insert a row?"
  differs <<~TEXT
    Four jobs for each that may run at once. The worker, its database and the service share the
    machine's two cores.
  TEXT
  jobs("calls", 1000, at_once: [25, 100, 1_000]) { |at_once| at_once }
end
