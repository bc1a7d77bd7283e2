# frozen_string_literal: true

require "pg"

module Bench
  module Workloads
    # Jobs that share connections and ask without end: how many queries per second.
    class PgRate < Workload
      DEFAULTS = { kind: "twelve" }.freeze
      # Jobs, connections, and the queries that a job asks while it has a connection.
      KINDS = { "twelve" => [12, 12, ["select 1"]], "thousand" => [1_000, 12, ["select 1"]],
                "three" => [100, 50, ["select pg_sleep(0.002)"] * 3] }.freeze

      def prepare
        @jobs, connections, @queries = KINDS.fetch(params[:kind])
        url = "postgresql://postgres@127.0.0.1:#{params.fetch(:port)}/nb"
        @pool = Thread::Queue.new
        connections.times { @pool << PG.connect(url) }
      end

      # All jobs at once, each takes its turns.
      #
      # @return [Integer] queries
      def round
        turns = [2_000 / @jobs, 1].max
        gather(@jobs) { turns.times { ask } }
        @jobs * turns * @queries.size
      end

      private

      def ask
        connection = @pool.pop
        @queries.each do |sql|
          rows = connection.exec(sql)
          expect(rows.ntuples == 1, "#{rows.ntuples} rows instead of one")
          rows.clear
        end
      ensure
        @pool << connection if connection
      end
    end
  end
end
