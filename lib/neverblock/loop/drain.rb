# frozen_string_literal: true

require_relative "scheduler"

module NB
  # Stopping well: `NB.run(on_interrupt: :drain)`, {NB.stopping?} and {NB.until_stop}.
  #
  # The first INT or TERM ends what waits for more work, and nothing else; the second, or the end of
  # the time for it, interrupts the block as Ruby would have at the first.
  class Drain
    # What people and process managers end a program with.
    SIGNALS = %w[INT TERM].freeze
    # How long {NB.until_stop} may take: for ever, almost.
    NEVER = 1_000_000_000
    # Ends the block of an {NB.until_stop}. Not a StandardError, so that no `rescue => e` sees it.
    Stop = Class.new(::Exception) # rubocop:disable Lint/InheritException
    private_constant :NEVER, :Stop

    @stopping = 0

    class << self
      # @return [Boolean] whether a loop of this process takes no more work
      # @api private
      def stopping? = @stopping.positive?

      # Tells who asks, and ends what waits for more work in this loop. {resume} takes it back.
      #
      # @param scheduler [Scheduler]
      # @return [void]
      # @api private
      def stop(scheduler)
        @stopping += 1
        scheduler.__send__(:expire, Stop)
      end

      # @return [void]
      # @api private
      def resume = @stopping = [@stopping - 1, 0].max

      # A forked child is a program of its own, which nobody has told to stop.
      # @return [void]
      # @api private
      def forked = @stopping = 0

      # @return [Drain, nil]
      # @raise [ArgumentError] if it is neither nil nor :drain
      # @api private
      def asked(on_interrupt, limit)
        return if on_interrupt.nil?
        return new(limit) if on_interrupt.to_s == "drain"

        raise ArgumentError, "on_interrupt: must be :drain or nil, got: #{on_interrupt.inspect}"
      end

      # What {NB.until_stop} does.
      # @api private
      def until_stop(&block)
        return if stopping?

        scheduler = Fiber.current_scheduler
        return yield unless scheduler.is_a?(Scheduler)

        begin
          # Looks again: a scheduler's hook may let others run before it begins.
          scheduler.timeout_after(NEVER, stop = Stop.new("the program stops")) do
            block.call unless stopping?
          end
        rescue Stop => error
          raise unless error.equal?(stop)
        end
      end
    end

    Fork.in_child { forked }

    # @param limit [Numeric, nil] seconds between the first signal and the interrupt
    def initialize(limit)
      @limit = limit
      @signals = Thread::Queue.new # the one thing that a handler of trap may always fill
      @pid = Process.pid
      @before = {} # name => handler
    end

    # Has signals looked after while the block runs, which must be the whole of {NB.run}.
    #
    # @return the block's value
    # @raise [SignalException] when the fibers had to be cancelled and the block did not raise it
    def around
      SIGNALS.each { |name| @before[name] = trap(name) { receive(name) } }
      value = yield
      raise @error if @error

      value
    ensure
      @before.each_key { |name| take_back(name) }
      Drain.resume if @stopping
    end

    # Starts the fiber that waits for signals; it does not keep the loop going.
    #
    # @yieldparam error [SignalException] to be raised in the block of NB.run
    # @yieldreturn [Boolean] whether there still is one
    def watch(scheduler, &interrupt)
      Fiber.schedule do
        name = scheduler.idle { @signals.pop }
        begin_to_stop(scheduler)
        name = next_signal(scheduler) || name
        loop do
          give_up(name, &interrupt)
          name = scheduler.idle { @signals.pop }
        end
      rescue Cancelled
        nil # the loop is closing
      end
    end

    private

    # In a handler of trap. When the loop does not even turn, nobody takes the signals.
    def receive(name)
      return pass_on(name) if @pid != Process.pid

      raise error_of(name) if @signals.size > 1

      @signals << name
    end

    # In a child that the program has forked: the fiber that looks after signals is the parent's.
    def pass_on(name)
      take_back(name)
      Process.kill(name, Process.pid)
    end

    def take_back(name) = trap(name, @before[name] || "DEFAULT")

    def begin_to_stop(scheduler)
      @stopping = true
      Drain.stop(scheduler)
    end

    def next_signal(scheduler)
      return if @limit&.zero? # which is no limit to Timeout

      Timeout.timeout(@limit) { scheduler.idle { @signals.pop } }
    rescue Timeout::Error
      nil
    end

    def give_up(name)
      error = error_of(name)
      @error = error unless yield error
    end

    def error_of(name) = name == "INT" ? Interrupt.new("") : SignalException.new("SIG#{name}")
  end
end
