# frozen_string_literal: true

require_relative "../native"
require_relative "repairs"

module NB
  # Time for tests: `NB.run(clock: :virtual)`. When all fibers wait, the loop's clock moves to the
  # next timer at once; see ext/neverblock/loop/virtual.h for when it does not.
  #
  # The loop gives this time to every wait. Two things in Ruby ask the kernel for the time instead:
  # CLOCK_MONOTONIC, by which Ruby code computes deadlines, and the timeouts of queues. From the
  # first virtual clock of the process on they are replaced, also with `repairs: false`; outside of
  # a loop with such a clock they do what they did.
  #
  # @api private
  module VirtualTime
    # What {NB.run} takes.
    CLOCKS = %i[real virtual].freeze

    # By which nanoseconds are divided: an Integer gives a whole number, as Process.clock_gettime.
    UNITS = {
      nil => 1e9, float_second: 1e9, float_millisecond: 1e6, float_microsecond: 1e3,
      second: 1_000_000_000, millisecond: 1_000_000, microsecond: 1000, nanosecond: 1
    }.freeze

    # What may wait at a queue for a limited time (Ruby 3.2), and how many things it is given.
    WAITS = [*[Thread::Queue, Thread::SizedQueue].product(%i[pop shift deq], [0]),
             *[Thread::SizedQueue].product(%i[push enq <<], [1])].freeze

    # Ends a wait at a queue; nobody else sees it.
    Late = Class.new(::Exception) # rubocop:disable Lint/InheritException
    private_constant :UNITS, :WAITS, :Late

    # A virtual clock that goes as the real one, since threads may be about to write: said once per
    # loop, when it has taken so many seconds.
    class Real
      @patience = 5
      class << self
        # @return [Numeric] seconds of real time
        attr_accessor :patience
      end

      # @param threads [Array<Thread>] who may write
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
        warn("NB.run(clock: :virtual): for #{Real.patience} s the clock went as the real one, " \
             "since a fiber waits for an IO that another thread may write to; end the thread, or " \
             "let it wait at a queue: #{threads.map(&:inspect).join(", ")}")
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

      # @return [Integer, nil] nanoseconds; nil where time is real
      def now_ns = (Native.virtual_ns if Repairs.main?)

      # Runs the block for at most so many seconds.
      #
      # @return the block's value; nil when time was up
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

      # What it takes, count of them before non_block, is the original's to judge.
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

    # @return [Boolean] whether it is a time to wait by a virtual clock
    def self.limits?(timeout) = timeout.is_a?(Numeric) && timeout.positive? && !now_ns.nil?
  end
end
