# frozen_string_literal: true

require "fileutils"
require "pg"

module Bench
  module Workloads
    # The article's `test.rb LONG MULT`: so many long queries and MULT short ones after each, either
    # one after the other on one connection, or by a hundred jobs that share twelve.
    class PgMix < Workload
      # hogs: so many processes that compute; or one of {BESIDE}.
      DEFAULTS = { long: 10, mult: 2, kind: "cpu", connections: 12, workers: 100, hogs: 0 }.freeze
      # "disk": a process that makes the disk write. "pool_first": both pools, of fibers and of
      # connections, are there during a blocking run, as in the article; "pool_after": they are made
      # after it, as its update advises.
      BESIDE = %w[disk pool_first pool_after].freeze
      # About 10 ms each on a machine of today, as the article's 54 ms on one of 2008.
      LONG = { "cpu" => "select count(*) from generate_series(1, 60000) i where i % 7 = 3",
               "sleep" => "select pg_sleep(0.01)" }.freeze
      SHORT = "select 1"
      # 16 MB again and again, each time to the disk.
      DISK_HOG = <<~'RUBY'
        part = "x" * (1 << 20)
        loop { $stdout.rewind && 16.times { $stdout.write(part) } && $stdout.fdatasync }
      RUBY

      def before
        beside = params[:hogs]
        strange = beside.is_a?(Integer) || BESIDE.include?(beside) ? nil : beside
        raise ArgumentError, "hogs: a number or #{BESIDE.join(", ")}, got: #{strange}" if strange

        @hogs = Array.new(beside.is_a?(Integer) ? beside : 0) { hog("loop {}") }
        disk_file { |file| @hogs << hog(DISK_HOG, out: file) } if beside == "disk"
      end

      def prepare
        one = [LONG.fetch(params[:kind]), *[SHORT] * params[:mult]]
        @queries = one * params[:long]
        one_by_one if params[:hogs] == "pool_after"
        make_idle_pools if blocking? && params[:hogs] == "pool_first"
        @connections = connect_all(blocking? ? 1 : params[:connections])
        @pool = Thread::Queue.new
        @connections.each { |connection| @pool << connection }
        one_by_one if params[:hogs] == "pool_first"
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
        [*@connections, *@idle].each(&:close)
        @hogs.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
      end

      # Those who compute beside go on.
      def rest = (super if @hogs.empty?)

      private

      def blocking? = runtime.id == "blocking"

      def hog(program, **options) = Process.spawn(RbConfig.ruby, "-e", program, **options)

      # In the source tree: /tmp may be memory. Its name is gone before the process is born that
      # writes to it and may be killed at any moment.
      def disk_file
        folder = File.join(ROOT, "tmp")
        FileUtils.mkdir_p(folder)
        name = File.join(folder, "disk-#{Process.pid}")
        File.open(name, "wb") do |file|
          File.unlink(name)
          yield file
        end
      end

      # What the blocking run has in its memory and does not use.
      def make_idle_pools
        @idle = connect_all(params[:connections])
        @fibers = Array.new(params[:workers]) { Fiber.new { Fiber.yield }.tap(&:resume) }
      end

      # The blocking run that comes before, in the same process.
      def one_by_one
        connection = connect
        @queries.each { |sql| connection.exec(sql).clear }
      ensure
        connection&.close
      end

      def connect_all(count) = Array.new(count) { connect }

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
