# frozen_string_literal: true

require_relative "scheduler"

module NB
  # Graceful stop: `NB.run(on_interrupt: :drain)`, {NB.stopping?} and {NB.until_stop}.
  #
  # The first INT or TERM ends the waits for more work, and nothing else. The second, or the time
  # limit, interrupts the block as Ruby would have done at the first.
  class Drain
    # The signals by which people and process managers end a program.
    SIGNALS = %w[INT TERM].freeze
    # The time limit of {NB.until_stop}: practically none.
    NEVER = 1_000_000_000
    # Ends the block of an {NB.until_stop}. Not a StandardError, so no `rescue => e` sees it.
    Stop = Class.new(::Exception) # rubocop:disable Lint/InheritException
    private_constant :NEVER, :Stop

    @stopping = 0

    class << self
      # @return [Boolean] whether any loop of this process takes no more work
      # @api private
      def stopping? = @stopping.positive?

      # Makes {NB.stopping?} true, and ends the waits for more work in this loop. {resume} undoes
      # it.
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

      # Implements {NB.until_stop}.
      # @api private
      def until_stop(&block)
        return if stopping?

        scheduler = Fiber.current_scheduler
        return yield unless scheduler.is_a?(Scheduler)

        begin
          # Checks again: a scheduler's hook may let others run before it begins.
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
      @signals = Thread::Queue.new # the one object that a trap handler may always push to
      @pid = Process.pid
      @before = {} # name => handler
    end

    # Handles signals while the block runs, which must be the whole of {NB.run}.
    #
    # @return the block's value
    # @raise [SignalException] if the fibers had to be cancelled and the block did not raise it
    def around
      SIGNALS.each { |name| @before[name] = trap(name) { receive(name) } }
      value = yield
      raise @error if @error

      value
    ensure
      @before.each_key { |name| take_back(name) }
      Drain.resume if @stopping
    end

    # Starts the fiber that waits for signals; it does not keep the loop running.
    #
    # @yieldparam error [SignalException] to raise in the block of NB.run
    # @yieldreturn [Boolean] whether that block still runs
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

    # Called in a trap handler. If the loop does not even turn, nobody takes the signals.
    def receive(name)
      return pass_on(name) if @pid != Process.pid

      raise error_of(name) if @signals.size > 1

      @signals << name
    end

    # In a child that the program has forked: the fiber that handles signals is the parent's.
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
      return if @limit&.zero? # Timeout takes 0 for no limit

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
