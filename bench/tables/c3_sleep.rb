# frozen_string_literal: true

require_relative "shared/long_queries"

Bench.table "c3_sleep" do
  extend Bench::LongQueries
  title "Long and short queries, the long ones that wait"
  long_queries "sleep", "`pg_sleep(0.01)`"
end
