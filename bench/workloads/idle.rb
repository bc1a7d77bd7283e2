# frozen_string_literal: true

module Bench
  module Workloads
    # Nothing happens: jobs wait on sockets and one on a timer. A runtime that spins shows here.
    class Idle < Workload
      DEFAULTS = { waiting: 100, next_timer_ms: 10_000 }.freeze

      def prepare
        @pairs = Array.new(params[:waiting]) { UNIXSocket.pair }
        @pairs.each do |here, _there|
          runtime.start { attempt { expect(here.readpartial(1) == "!", "byte differs") } }
        end
        runtime.start { tick } if params[:next_timer_ms] < 10_000
      end

      # @return [Hash] :value in milliseconds of CPU time per second of clock time
      def measure
        sleep(0.1)
        sample = timed { sleep([seconds, 2.0].max) }
        @stop = true
        @pairs.each { |_here, there| there.write("!") }
        sample.merge(value: sample[:cpu] / sample[:elapsed] * 1000, operations: 1)
      end

      # The timers go on.
      def rest; end

      private

      def tick
        sleep(params[:next_timer_ms] / 1000.0) until @stop
      end
    end
  end
end
