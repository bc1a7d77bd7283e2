# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j1" do
  extend Bench::JobTables
  title "Jobs that wait for a service"
  question "How many jobs per second does one worker run that each wait a second for an HTTP " \
           "service and then insert a row?"
  waiting_jobs "calls"
end
