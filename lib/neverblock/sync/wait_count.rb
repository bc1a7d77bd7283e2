# frozen_string_literal: true

module NB
  # Counts waits and their durations. Only actual waits are counted: being served at once costs
  # nothing here.
  #
  # @api private
  class WaitCount
    # @return [Integer] number of waits; of those ended by their timeout
    attr_reader :waits, :timeouts
    # @return [Float] seconds of all waits; of the longest
    attr_reader :seconds, :longest

    # @param total [WaitCount, nil] counts the same waits
    def initialize(total = nil)
      @total = total
      reset
    end

    # @param seconds [Float] the duration of one wait
    # @return [void]
    def count(seconds)
      @waits += 1
      @seconds += seconds
      @longest = seconds if seconds > @longest
      @total&.count(seconds)
    end

    # In addition to {#count}, for a wait that was given up.
    #
    # @return [void]
    def count_timeout
      @timeouts += 1
      @total&.count_timeout
    end

    # Starts again at 0, as a forked child does.
    #
    # @return [void]
    def reset
      @waits = @timeouts = 0
      @seconds = @longest = 0.0
    end

    # @return [Hash{Symbol=>Integer, Float}] waits, timeouts, wait_seconds, longest_wait_seconds
    def to_h
      { waits: @waits, timeouts: @timeouts, wait_seconds: @seconds,
        longest_wait_seconds: @longest }
    end
  end
end
