# frozen_string_literal: true

require "pg"

module Bench
  module Workloads
    # The article's `test.rb LONG MULT`: so many long queries and MULT short ones after each, either
    # one after the other on one connection, or by a hundred jobs that share twelve.
    class PgMix < Workload
      DEFAULTS = { long: 10, mult: 2, kind: "cpu", connections: 12, workers: 100, hogs: 0 }.freeze
      # About 10 ms each on a machine of today, as the article's 54 ms on one of 2008.
      LONG = { "cpu" => "select count(*) from generate_series(1, 60000) i where i % 7 = 3",
               "sleep" => "select pg_sleep(0.01)" }.freeze
      SHORT = "select 1"

      def before
        @hogs = Array.new(params[:hogs]) { Process.spawn(RbConfig.ruby, "-e", "loop {}") }
      end

      def prepare
        count = runtime.id == "blocking" ? 1 : params[:connections]
        @connections = Array.new(count) { connect }
        @pool = Thread::Queue.new
        @connections.each { |connection| @pool << connection }
        one = [LONG.fetch(params[:kind]), *[SHORT] * params[:mult]]
        @queries = one * params[:long]
      end

      # @return [Hash] :value in seconds, the median of as many runs as fit
      def measure
        run_all
        GC.start
        served = database_cpu
        times = []
        sample = timed do
          times << clock { run_all } while times.empty? || running?(seconds)
        end
        per_run = 1.0 / times.size
        @metrics[:client_s] = sample[:cpu] * per_run
        @metrics[:database_s] = (database_cpu - served) * per_run
        sample.merge(value: times.sort[times.size / 2], operations: times.size)
      end

      def after
        @connections&.each(&:close)
        @hogs.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
      end

      private

      def connect
        PG.connect("postgresql://postgres@127.0.0.1:#{params.fetch(:port)}/nb")
      end

      def run_all
        rest = @queries.dup
        gather([params[:workers], rest.size].min) do
          while (sql = rest.shift)
            query(sql)
          end
        end
      end

      def query(sql)
        connection = @pool.pop
        rows = connection.exec(sql)
        expect(rows.ntuples == 1, "#{rows.ntuples} rows instead of one")
        rows.clear
      ensure
        @pool << connection if connection
      end

      def clock
        started = now
        yield
        now - started
      end

      # Of the processes that serve our connections.
      def database_cpu
        @connections.sum { |one| File.read("/proc/#{one.backend_pid}/schedstat").to_i } / 1e9
      end
    end
  end
end
