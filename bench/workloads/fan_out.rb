# frozen_string_literal: true

module Bench
  module Workloads
    # Coordinators that each start five waits of 1 ms to 5 ms and go on when all have ended.
    class FanOut < Workload
      DEFAULTS = { coordinators: 10, cycles: 21, width: 5 }.freeze

      # @param cycle [Integer]
      # @param index [Integer] which of the five
      # @return [Float] seconds, 0.001 to 0.005
      def self.latency(cycle, index)
        0.001 + (0.004 * (((cycle * 5) + index) % 7) / 6.0)
      end

      # @return [Integer] cycles
      def round
        gather(params[:coordinators]) do
          params[:cycles].times { |cycle| collect(cycle) }
        end
        params[:coordinators] * params[:cycles]
      end

      private

      def collect(cycle)
        results = Thread::Queue.new
        params[:width].times do |index|
          runtime.start do
            attempt { sleep_exactly(self.class.latency(cycle, index)) }
            results << index
          end
        end
        got = Array.new(params[:width]) { results.pop }
        expect(got.sort == (0...params[:width]).to_a, "results differ: #{got}")
      end
    end
  end
end
