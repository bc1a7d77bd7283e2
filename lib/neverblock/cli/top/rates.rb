# frozen_string_literal: true

module NB
  module CLI
    module Top
      # Rates per second between two snapshots of a server. Only processes in both snapshots count,
      # because a new worker has no past.
      #
      # @api private
      class Rates
        # Name => where a snapshot has its total.
        TOTALS = {requests: %i[http requests], errors: %i[http errors], failed: %i[http 5xx],
                  cpu: %i[cpu_seconds], gc: %i[gc seconds], turns: %i[loop turns],
                  switches: %i[loop switches], lag: %i[loop lag_seconds_total],
                  timers: %i[loop lag_timers_total]}.freeze
        private_constant :TOTALS

        # @param snapshot [Hash] of `/snapshot`
        # @return [Array<Hash>] for each serving process
        def self.processes(snapshot)
          snapshot[:workers].to_a.empty? ? [snapshot] : snapshot[:workers]
        end

        # @param before [Hash, nil] an earlier snapshot
        # @param now [Hash]
        def initialize(before, now)
          old = before ? Rates.processes(before).to_h { |one| [one[:pid], one] } : {}
          @rates = Rates.processes(now).to_h { |one| [one[:pid], of(old[one[:pid]], one)] }
        end

        # @param pid [Integer]
        # @return [Hash{Symbol=>Float}] per second; empty: unknown
        def [](pid) = @rates.fetch(pid, {})

        # @return [Hash{Symbol=>Float}] of all processes, and `lag_seconds`, the mean lateness of
        #   timers
        def to_h
          sum = @rates.values.reduce({}) { |all, one| all.merge(one) { |_, a, b| a + b } }
          return sum unless sum[:timers]

          {**sum, lag_seconds: sum[:timers].positive? ? sum[:lag] / sum[:timers] : 0.0}
        end

        private

        # A silent worker has reported nothing since.
        def of(before, now)
          seconds = now[:time].to_f - (before || {})[:time].to_f
          return {} unless before && now[:time] && before[:time] && seconds.positive?

          TOTALS.filter_map { |name, path|
            one, two = [before, now].map { |snapshot| snapshot.dig(*path) }
            [name, (two - one) / seconds] if one && two && two >= one
          }.to_h
        end
      end
    end
  end
end
