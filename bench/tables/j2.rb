# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j2" do
  extend Bench::JobTables
  title "Jobs that wait for a language model's words"
  question "How many jobs does one worker do per second that each wait fifty times, for 20 ms, " \
           "on one HTTP connection?"
  differs <<~TEXT
    Four jobs for each that may run at once. The worker, its database and the service share the
    machine's two cores.
  TEXT
  jobs("streams", 1000, at_once: [25, 100, 1_000]) { |at_once| at_once }
end
