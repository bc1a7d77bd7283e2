# frozen_string_literal: true

require_relative "../errors"
require_relative "drain"
require_relative "fork"
require_relative "scheduler"

module NB
  # {NB.run}: a loop around a block, with the block's value and exceptions.
  class Runner
    # How the block was left: with a value, an exception, a `break` or a `throw`.
    Outcome = Struct.new(:kind, :value)
    private_constant :Outcome

    Fork.in_child { @first_in_child = ::Fiber.current }

    class << self
      # Implements {NB.run}.
      #
      # @api private
      def run(backend:, repairs:, clock: :real, drain: nil, &block)
        virtual = VirtualTime.asked?(clock)
        refuse_clock if virtual && Fiber.scheduler && !VirtualTime.now_ns
        return yield if Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler

        scheduler = Fiber.scheduler
        return new(scheduler).join(&block) if scheduler.is_a?(Scheduler)
        refuse(scheduler) if scheduler
        refuse_transferred(Fiber.current)
        unless Fiber.current.blocking?
          return new(nil).from_blocking_fiber do
            run(backend: backend, repairs: repairs, clock: clock, drain: drain, &block)
          end
        end

        options = { backend: backend, repairs: repairs, clock: clock }
        return in_loop(options, &block) unless drain

        drain.around do
          in_loop(options, ->(own, runner) { watch(drain, own, runner) }, &block)
        end
      end

      private

      def in_loop(options, before = nil, &block)
        with_scheduler(options) do |own|
          runner = new(own, own: true)
          before&.call(own, runner)
          runner.call(&block)
        end
      end

      def watch(drain, scheduler, runner)
        drain.watch(scheduler) { |error| runner.interrupt(error) }
      end

      def refuse(scheduler)
        raise NoSchedulerError, "NB.run: this thread already has a #{scheduler.class}; call it " \
                                "inside one of its fibers, or on a thread without a scheduler"
      end

      # When a fiber of the loop ends, Ruby continues the last fiber of the chain of those that have
      # resumed each other. A fiber entered by Fiber#transfer is not in that chain, so its caller
      # would continue before the block has ended. The first fiber of a thread or a forked child
      # begins the chain, but looks the same to Ruby. A thread's has no block, whose place #inspect
      # would tell.
      def refuse_transferred(fiber)
        return if fiber.equal?(@first_in_child) || !fiber.inspect.match?(/:\d+ \(/)
        return if resumed?(fiber)

        raise FiberError, "NB.run: this fiber was entered by Fiber#transfer, so Ruby would leave " \
                          "it when another fiber ends; enter it by #resume"
      end

      def resumed?(fiber)
        probe = ::Fiber.new do
          fiber.resume
        rescue FiberError => error
          fiber.transfer(error.message.include?("double resume"))
        end
        probe.transfer
      end

      def refuse_clock
        raise ArgumentError, "clock: :virtual is for the outermost NB.run; this one runs " \
                             "inside a scheduler whose clock is real"
      end

      def with_scheduler(options)
        scheduler = Scheduler.new(**options)
        Fiber.set_scheduler(scheduler)
        value = yield scheduler
        ended = true
        value
      ensure
        begin
          # Not `rescue`: Thread#kill is no exception.
          scheduler.cancel_all unless scheduler.nil? || ended || scheduler.closed?
        ensure
          unset(scheduler) if scheduler
        end
      end

      # Ruby keeps a scheduler whose `close` raises, for example after a deadlock.
      def unset(scheduler)
        Fiber.set_scheduler(nil)
      ensure
        Fiber.set_scheduler(nil) if Fiber.scheduler.equal?(scheduler)
      end
    end

    # @param own [Boolean] whether the loop exists only for this block
    # @api private
    def initialize(scheduler, own: false)
      @scheduler = scheduler
      @own = own
      @pid = Process.pid
    end

    # If other fibers exist, this one is blocking ({NB.blocking}), or it is the thread's first one.
    # Then the loop runs for the block alone, because all others would be waiting for this very
    # fiber. What the block yields (Fiber.yield, an Enumerator) goes to whoever resumes this one.
    #
    # @api private
    def join(&block)
      return call(&block) if @scheduler.stats[:fibers].zero? || @scheduler.host?

      hand_on(::Fiber.new(blocking: false) { finish(&block) })
      leave
    end

    # Ruby's scheduler takes a non-blocking fiber for one of its own, which must not wait until the
    # others have ended. So if NB.run is called in such a fiber, as in an Enumerator's, another
    # fiber, a blocking one, runs the loop. The fiber-locals are the caller's, before and after.
    #
    # @api private
    def from_blocking_fiber(&block)
      before = after = fiber_locals
      fiber = ::Fiber.new(blocking: true) do
        before.each { |key, value| Thread.current[key] = value }
        finish(&block)
        after = fiber_locals
      end
      hand_on(fiber)
      (before.keys | after.keys).each { |key| Thread.current[key] = after[key] }
      leave
    end

    # Runs the block in a fiber, and the loop until the block has ended.
    #
    # @api private
    def call(&block)
      locals = fiber_locals
      status = $?
      @fiber = Fiber.schedule { conduct(locals, status, &block) }
      serve
      Native.last_status = @last_status # the block's, as without a loop
      leave
    ensure
      @scheduler.__send__(:lead, @outer)
    end

    # Raises the error in the block. When the block has ended, cancels the fibers that have not.
    #
    # @return [Boolean] whether the block has not ended yet
    # @api private
    def interrupt(error)
      if @outcome
        @scheduler.__send__(:end_others, "the program stops", again: true)
      else
        @scheduler.fiber_interrupt(@fiber, error)
      end
      @outcome.nil?
    end

    private

    # Passes what the block yields to the fiber that resumes the calling one, and what that fiber
    # passes or raises to the block.
    def hand_on(fiber)
      passed = fiber.resume
      passed = exchange(fiber, passed) until @outcome || !fiber.alive?
    end

    def exchange(fiber, passed)
      answer = ::Fiber.yield(passed)
    rescue Exception => error # rubocop:disable Lint/RescueException -- by Fiber#raise
      fiber.raise(error)
    else
      fiber.resume(answer)
    end

    def fiber_locals = Thread.current.keys.to_h { |key| [key, Thread.current[key]] }

    # A trap handler has forked while this fiber waited: in the child, nobody runs the block.
    def forked? = @pid != Process.pid

    # `run` raises signals, Thread#raise, and errors of threads with abort_on_exception. They are
    # meant for the block, which may rescue them where it waits, as without a loop.
    def serve
      @scheduler.run until @outcome || forked? || !@fiber.alive?
    rescue Exception => error # rubocop:disable Lint/RescueException -- handed to the block
      raise if @outcome || @scheduler.host? || !@scheduler.__send__(:waiting_within?, @fiber)

      error.set_backtrace(nil) if error.backtrace&.first&.start_with?(__FILE__)
      @handed = true
      hand(error) unless joined(error)
      retry
    end

    # A `throw` of a trap handler has come here as an error. In the block it finds its `catch`.
    def hand(error)
      if error.is_a?(UncaughtThrowError) && Jump.from?(error, __FILE__)
        @scheduler.__send__(:throw_in, @fiber, error.tag, error.value)
      else
        @scheduler.fiber_interrupt(@fiber, error)
      end
    end

    # Whether the block joins the thread that ended with the error. Then join raises it, and once is
    # enough.
    def joined(error)
      wait = @scheduler.waits.find { |found| found[:owner].equal?(@fiber) }
      thread = wait && wait[:blocker]
      thread.is_a?(Thread) && thread.status.nil? && thread.join && false
    rescue Exception => raised # rubocop:disable Lint/RescueException -- only compared
      raised.equal?(error)
    end

    # The block failed, so nobody will wait for what it started.
    def cancel_others
      @scheduler.__send__(:end_others, "the block of NB.run has failed")
    end

    # Runs the block in its fiber. Whatever ends the fiber, there is an outcome, for which {#serve}
    # waits: Thread#raise and timeouts around NB.run also strike outside the block, and
    # Fiber#kill is no exception.
    def conduct(locals, status, &block)
      @fiber = Fiber.current
      Native.last_status = status
      @scheduler.thread_fiber = @fiber if @own
      @outer = @scheduler.__send__(:lead, @fiber)
      locals.each { |key, value| Thread.current[key] = value }
      finish(&block)
      @last_status = $?
      cancel_others if @own && @outcome.kind != :value
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by #leave
      raise if forked?

      @outcome = Outcome.new(:raise, error)
    ensure
      @outcome ||= Outcome.new(:value, nil) # interrupted
    end

    # In a child that the block has forked its fiber is the first one: nobody takes its outcome.
    def finish(&block)
      @outcome = outcome(&block)
      leave if forked?
    end

    def outcome(&block)
      Outcome.new(:value, whole(&block))
    rescue UncaughtThrowError => error
      Outcome.new(Jump.from?(error, __FILE__) ? :throw : :raise, error)
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by #leave
      return Outcome.new(:value, error.exit_value) if Jump.break?(error, __FILE__)

      Outcome.new(:raise, error)
    end

    # What {#serve} has handed to the block while another exception was on its way to it is raised
    # at the block's next wait: here at the latest, else a signal would be lost.
    def whole
      yield
    ensure
      sleep(0) if @handed && !forked?
    end

    def leave
      return unless @outcome

      case @outcome.kind
      when :value then @outcome.value
      when :throw then throw_on(@outcome.value)
      else raise @outcome.value
      end
    end

    # If nobody outside catches it either, it is reported from where it was thrown.
    def throw_on(uncaught)
      throw(uncaught.tag, uncaught.value)
    rescue UncaughtThrowError
      raise uncaught, cause: uncaught.cause
    end
  end
end
