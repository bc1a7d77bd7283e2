# frozen_string_literal: true

require_relative "../errors"
require_relative "check"

module NB
  # A {Limiter} for each key, made when it is asked for and forgotten when it makes no difference:
  # what {Limiter#[]} gives.
  #
  # @api private
  class KeyedLimiters
    # From how many keys on those that nobody uses are looked for.
    SWEEP = 1_000
    private_constant :SWEEP

    # One key of a {Limiter}.
    class Key
      # @return [Object]
      attr_reader :key

      # @api private
      def initialize(limiters, key)
        @limiters = limiters
        @key = key
      end

      # As {Limiter#with}, for this key.
      #
      # @param timeout [Numeric, nil] seconds
      # @return the block's value
      # @raise [NB::LimiterTimeoutError] when the turn has not come in time
      # @scheduling may wait
      # @thread any
      def with(timeout: nil, &block)
        Check.block("Limiter#with", block_given?)
        @limiters.with(@key, timeout, &block)
      end

      # @return [Hash{Symbol=>Integer, Float}] see {Limiter#stats}
      # @scheduling never waits
      # @thread any
      def stats = @limiters.of(@key).stats
    end

    # @param limit [Integer] of each
    # @param per [Numeric, nil] of each
    def initialize(limit, per)
      @limit = limit
      @per = per
      @lock = Thread::Mutex.new
      @limiters = {}
      @sweep_at = SWEEP
    end

    # @return [Key]
    def [](key) = Key.new(self, key)

    # @return [Integer] how many there are
    def size = @limiters.size

    # @return [Limiter]
    # @scheduling waits only for the lock
    # @thread any
    def of(key)
      @limiters[key] || @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) { sweep } if @limiters.size >= @sweep_at
        @limiters[key] ||= Limiter.new(@limit, per: @per)
      end
    end

    # One that was forgotten before its turn came is no longer the key's: its turn is let go, and
    # asked for anew. After the turn has come, it is in use and stays.
    #
    # @scheduling may wait
    # @thread any
    def with(key, timeout)
      forgotten = true
      value = nil
      while forgotten
        limiter = of(key)
        limiter.with(timeout: timeout) do
          forgotten = limiter.forgotten
          value = yield unless forgotten
        end
      end
      value
    end

    private

    # One that was taken just before it went is still its key's.
    def sweep
      gone = @limiters.select { |_, limiter| limiter.fresh? }
      gone.each_key { |key| @limiters.delete(key).forgotten = true }
      gone.each do |key, limiter|
        next if limiter.fresh?

        @limiters[key] = limiter
        limiter.forgotten = false
      end
      @sweep_at = [SWEEP, 2 * @limiters.size].max
    end
  end
end
