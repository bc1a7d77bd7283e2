# frozen_string_literal: true

require_relative "../errors"
require_relative "check"

module NB
  # One {Limiter} per key, for {Limiter#[]}. A limiter is made when its key is first used, and
  # dropped once a new one would act the same.
  #
  # @api private
  class KeyedLimiters
    # From this many keys on, unused ones are looked for.
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

      # The same as {Limiter#with}, for this key.
      #
      # @param timeout [Numeric, nil] seconds
      # @return the block's value
      # @raise [NB::LimiterTimeoutError] if the turn does not come in time
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

    # @yieldreturn [Limiter] a new one for a key
    def initialize(&make)
      @make = make
      @lock = Thread::Mutex.new
      @limiters = {}
      @sweep_at = SWEEP
    end

    # @return [Key]
    def [](key) = Key.new(self, key)

    # @return [Integer] the number of limiters
    def size = @limiters.size

    # @return [Limiter]
    # @scheduling waits only for the lock
    # @thread any
    def of(key)
      @limiters[key] || @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) { sweep } if @limiters.size >= @sweep_at
        @limiters[key] ||= @make.call
      end
    end

    # If a limiter was dropped before its turn came, it no longer belongs to the key. The turn is
    # given back, and asked for again. Once the turn has come, the limiter is in use and stays.
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

    # A limiter that was taken just before it was dropped still belongs to its key.
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
