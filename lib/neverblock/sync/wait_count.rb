# frozen_string_literal: true

module NB
  # How often, and for how long, something was waited for. Only waits are counted: who is served at
  # once costs nothing here.
  #
  # @api private
  class WaitCount
    # @return [Integer] waits; those that ended by their timeout
    attr_reader :waits, :timeouts
    # @return [Float] of all; of the longest
    attr_reader :seconds, :longest

    # @param total [WaitCount, nil] counts the same
    def initialize(total = nil)
      @total = total
      reset
    end

    # @param seconds [Float] that one wait took
    # @return [void]
    def count(seconds)
      @waits += 1
      @seconds += seconds
      @longest = seconds if seconds > @longest
      @total&.count(seconds)
    end

    # Beside {#count}, for one who gave up.
    #
    # @return [void]
    def count_timeout
      @timeouts += 1
      @total&.count_timeout
    end

    # Begins anew, as the child of a fork does.
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
