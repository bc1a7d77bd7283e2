# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j2" do
  extend Bench::JobTables
  title "Jobs that wait for a language model's words"
  question "How many jobs per second does one worker run that each wait fifty times, for 20 ms, " \
           "on one HTTP connection?"
  waiting_jobs "streams", at_once: [25, 100, 200, 1_000]
end
