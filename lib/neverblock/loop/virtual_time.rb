# frozen_string_literal: true

require_relative "../native"
require_relative "repairs"

module NB
  # Time for tests: `NB.run(clock: :virtual)`. When all fibers wait, the loop's clock jumps to the
  # next timer; ext/neverblock/loop/virtual.h says when it does not.
  #
  # The loop uses this time for every wait. Two things in Ruby ask the kernel for the time instead:
  # CLOCK_MONOTONIC, from which Ruby code computes deadlines, and the timeouts of queues. From the
  # first virtual clock of the process on they are replaced, even with `repairs: false`. Outside a
  # loop with such a clock they work as before.
  #
  # @api private
  module VirtualTime
    # The values of `clock:` in {NB.run}.
    CLOCKS = %i[real virtual].freeze

    # Divisors of nanoseconds. An Integer gives an Integer, as in Process.clock_gettime.
    UNITS = {
      nil => 1e9, float_second: 1e9, float_millisecond: 1e6, float_microsecond: 1e3,
      second: 1_000_000_000, millisecond: 1_000_000, microsecond: 1000, nanosecond: 1
    }.freeze

    # The methods that wait at a queue with a timeout (from Ruby 3.2 on), and the number of their
    # positional arguments.
    WAITS = [*[Thread::Queue, Thread::SizedQueue].product(%i[pop shift deq], [0]),
             *[Thread::SizedQueue].product(%i[push enq <<], [1])].freeze

    # Ends a wait at a queue; no other code sees it.
    Late = Class.new(::Exception) # rubocop:disable Lint/InheritException
    private_constant :UNITS, :WAITS, :Late

    # Reports, once per loop, that a virtual clock has followed real time for some seconds because
    # threads may be about to write, to unlock or to push.
    class Real
      @patience = 5
      class << self
        # @return [Numeric] seconds of real time
        attr_accessor :patience
      end

      # @param threads [Array<Thread>] that may do so
      # @return [Boolean] whether there are any
      def goes(threads)
        if threads.empty?
          @since = nil
          return false
        end

        say(threads) unless @said
        true
      end

      private

      def say(threads)
        now = Process.clock_gettime(Process::CLOCK_REALTIME)
        @since ||= now
        return if now - @since < Real.patience

        @said = true
        warn("NB.run(clock: :virtual): for #{Real.patience} s the clock followed real time, " \
             "because a fiber waits for an IO, a lock or a queue, and another thread may write, " \
             "unlock or push. End that thread, or let it wait at a queue: " \
             "#{threads.map(&:inspect).join(", ")}")
      end
    end

    @lock = Thread::Mutex.new

    class << self
      # @return [Boolean] whether a virtual clock is asked for
      # @raise [ArgumentError]
      def asked?(clock)
        return clock.to_sym == :virtual if clock.respond_to?(:to_sym) &&
                                           CLOCKS.include?(clock.to_sym)

        raise ArgumentError, "clock: must be :real or :virtual, got: #{clock.inspect}"
      end

      # @return [void]
      def install
        @lock.synchronize do
          return if @installed

          @installed = true
          replace_clock
          replace_waits if RUBY_VERSION >= "3.2"
        end
      end

      # @return [Integer, nil] nanoseconds; nil in a loop with real time
      def now_ns = (Native.virtual_ns if Repairs.main?)

      # Runs the block for at most this many seconds.
      #
      # @return the block's value; nil if time was up
      # @scheduling may wait
      def within(seconds)
        Fiber.current_scheduler.timeout_after(seconds, late = Late.new) { yield }
      rescue Late => error
        raise unless error.equal?(late)
      end

      private

      def replace_clock
        units = UNITS
        Repairs.repair(Process.singleton_class, :clock_gettime) do |original|
          proc do |clock, *unit|
            ns = VirtualTime.now_ns if clock == Process::CLOCK_MONOTONIC
            by = ns && unit.size < 2 && units[unit.first]
            by ? ns / by : __send__(original, clock, *unit)
          end
        end
      end

      def replace_waits
        WAITS.each { |owner, name, count| replace_wait(owner, name, count) }
      end

      # The original judges the arguments; `count` of them come before non_block.
      def replace_wait(owner, name, count)
        Repairs.repair(owner, name) do |original|
          proc do |*arguments, timeout: nil|
            if VirtualTime.limits?(timeout) && !arguments[count]
              VirtualTime.within(timeout) { __send__(original, *arguments) }
            else
              __send__(original, *arguments, timeout: timeout)
            end
          end
        end
      end
    end

    # @return [Boolean] whether it is a timeout that the virtual clock can wait for
    def self.limits?(timeout) = timeout.is_a?(Numeric) && timeout.positive? && !now_ns.nil?
  end
end
