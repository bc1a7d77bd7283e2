# frozen_string_literal: true

module Bench
  module Workloads
    # One method around a block, again and again, with nobody else there.
    class Words < Workload
      DEFAULTS = {}.freeze
      CALLS = 100_000
      HOST = "example.org"

      def prepare
        require "neverblock"
        @limiter = NB::Limiter.new(5)
        @span = NB::Limiter.new(5, per: 1e-6) # over before the sixth call
        @calls = 0
      end

      # @return [Integer] calls
      def round
        before = @calls
        send(params.fetch(:word))
        expect(@calls - before == CALLS, "#{@calls - before} blocks ran")
        CALLS
      end

      private

      def nothing = CALLS.times { bare { @calls += 1 } }

      def shield = CALLS.times { NB.shield { @calls += 1 } }

      def limiter = CALLS.times { @limiter.with { @calls += 1 } }

      def span = CALLS.times { @span.with { @calls += 1 } }

      def key = CALLS.times { @limiter[HOST].with { @calls += 1 } }

      def retry = CALLS.times { NB.retry { @calls += 1 } }

      def bare = yield
    end
  end
end
