# frozen_string_literal: true

module Bench
  module Workloads
    # 120 times `SELECT SLEEP(0.1)` over twelve connections of MariaDB, making them included; a job
    # beside them that wakes every 5 ms tells how long nothing else could run.
    class MysqlSleep < Workload
      DEFAULTS = { driver: "mysql2", queries: 120, connections: 12 }.freeze
      TICK = 0.005
      private_constant :TICK

      def before
        require params[:driver]
      end

      # @return [Hash] :value in seconds
      def measure
        ticker = start_ticker
        sample = timed { run_all }
        @ended = true
        ticker.pop
        @metrics[:late_ms] = @late * 1000
        sample.merge(value: sample[:elapsed], operations: params[:queries])
      end

      private

      def run_all
        pool = Thread::Queue.new
        gather(params[:connections]) { pool << connect }
        gather(params[:queries]) do
          connection = pool.pop
          rows = connection.query("SELECT SLEEP(0.1) AS slept").to_a
          expect([[0], { "slept" => 0 }].include?(rows.first), "row #{rows.first.inspect}")
        ensure
          pool << connection if connection
        end
      end

      def connect
        options = { host: "127.0.0.1", port: params.fetch(:port), username: "nb",
                    password: "secret", database: "nb" }
        params[:driver] == "mysql2" ? Mysql2::Client.new(options) : Trilogy.new(options)
      end

      # Blocking Ruby runs it when all is over, which is the truth about it.
      def start_ticker
        @late = 0.0
        ended = Thread::Queue.new
        return ended << true if runtime.id == "blocking"

        runtime.start do
          until @ended
            before = now
            sleep(TICK)
            @late = [@late, now - before - TICK].max
          end
          ended << true
        end
        ended
      end
    end
  end
end
