# frozen_string_literal: true

require "timeout"

module Bench
  module Workloads
    # Timeout.timeout(10 ms) over a sleep: three of ten sleep 50 ms and must be cut off at 10 ms,
    # the others sleep 2 ms and must sleep it whole.
    class Timeouts < Workload
      DEFAULTS = { jobs: 20, calls: 30, limit_ms: 10.0, short_ms: 2.0, long_ms: 50.0 }.freeze

      # @return [Integer] calls
      def round
        gather(params[:jobs]) do |index|
          params[:calls].times { |call| work(slow: ((call * 7) + (index * 3)) % 10 < 3) }
        end
        params[:jobs] * params[:calls]
      end

      private

      def work(slow:)
        started = now
        Timeout.timeout(params[:limit_ms] / 1000) do
          sleep(params[slow ? :long_ms : :short_ms] / 1000)
        end
        expect(!slow && after?(started, :short_ms), "a sleep of #{slow ? 50 : 2} ms ended early")
      rescue Timeout::Error
        expect(after?(started, :limit_ms), "a deadline of 10 ms came early")
        # A short sleep may be cut off when the machine was busy with others for 8 ms.
        @metrics[:late] = @metrics.fetch(:late, 0) + 1 unless slow
      end

      def after?(started, limit)
        now - started >= (params[limit] / 1000) - ROUNDING
      end
    end
  end
end
