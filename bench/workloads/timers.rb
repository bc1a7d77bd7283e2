# frozen_string_literal: true

require "timeout"

module Bench
  module Workloads
    # Many deadlines far away, and what the near ones cost beside them. The far ones are nested
    # Timeout blocks, a hundred deep, in jobs that wait.
    class Timers < Workload
      DEFAULTS = { timers: 100, depth: 100, sleepers: 100 }.freeze

      def prepare
        @gate = Thread::Queue.new
        @ready = Thread::Queue.new
        depth = [params[:depth], params[:timers]].min
        jobs = params[:timers] / depth
        jobs.times { runtime.start { attempt { nest(depth) } } }
        jobs.times { @ready.pop }
      end

      # A deadline that is set and taken back, a thousand times.
      #
      # @return [Integer] deadlines
      def round
        1_000.times { |turn| expect(Timeout.timeout(60) { turn } == turn, "value differs") }
        1_000
      end

      # @return [Hash] :value in nanoseconds per deadline
      def measure
        sample = super
        lateness
        @gate.close
        sample.merge(value: 1e9 / sample[:value])
      end

      private

      def nest(depth)
        return wait if depth.zero?

        Timeout.timeout(3_600 + depth) { nest(depth - 1) }
      end

      def wait
        @ready << true
        @gate.pop
      end

      # How late sleeps of 1 ms to 5 ms end when a hundred of them run.
      def lateness
        late = []
        gather(params[:sleepers]) do |index|
          5.times do |turn|
            duration = (1 + ((index + turn) % 5)) / 1000.0
            started = now
            sleep_exactly(duration)
            late << ((now - started - duration) * 1e6)
          end
        end
        late.sort!
        @metrics.merge!(late_p50_us: late[late.size / 2], late_p99_us: late[(late.size * 99) / 100])
      end
    end
  end
end
