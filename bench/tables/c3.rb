# frozen_string_literal: true

require_relative "shared/long_queries"

Bench.table "c3" do
  extend Bench::LongQueries
  title "Long and short queries, the long ones that compute"
  long_queries "cpu", "count 60,000 numbers"
end
