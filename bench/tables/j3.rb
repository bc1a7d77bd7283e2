# frozen_string_literal: true

require_relative "shared/jobs"

Bench.table "j3" do
  extend Bench::JobTables
  title "Jobs that compute"
  question "How many jobs per second does one worker run that compute for 20 ms each?"
  differs <<~TEXT
    Nothing waits here, so nothing can be won: the table shows what fibers cost where they are of
    no use.
  TEXT
  jobs("computes", 20, at_once: [5, 25])
end
