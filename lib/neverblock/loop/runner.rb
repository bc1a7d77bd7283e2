# frozen_string_literal: true

require_relative "scheduler"

module NB
  # {NB.run}: a loop around a block, with the block's value and exceptions.
  class Runner
    # What the block left with: a value, an exception, a `break` or a `throw`.
    Outcome = Struct.new(:kind, :value)
    private_constant :Outcome

    class << self
      # What {NB.run} does.
      #
      # @api private
      def run(backend:, repairs:, &block)
        return yield if Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler

        scheduler = Fiber.scheduler
        return new(scheduler).join(&block) if scheduler.is_a?(Scheduler)
        refuse(scheduler) if scheduler

        with_scheduler(backend, repairs) { |own| new(own, own: true).call(&block) }
      end

      private

      def refuse(scheduler)
        raise NoSchedulerError, "NB.run: this thread has a #{scheduler.class} already; call it " \
                                "inside one of its fibers, or on a thread without a scheduler"
      end

      def with_scheduler(backend, repairs)
        scheduler = Scheduler.new(backend: backend, repairs: repairs)
        Fiber.set_scheduler(scheduler)
        value = yield scheduler
        ended = true
        value
      ensure
        # Not `rescue`: Thread#kill is no exception.
        scheduler.cancel_all unless scheduler.nil? || ended || scheduler.closed?
        Fiber.set_scheduler(nil) if scheduler
      end
    end

    # @param own [Boolean] whether the loop is there for this block only
    # @api private
    def initialize(scheduler, own: false)
      @scheduler = scheduler
      @own = own
    end

    # With other fibers there, this one is blocking ({NB.blocking}), or the thread's first one: the
    # loop goes on for the block alone, since all would be waiting for this very fiber.
    #
    # @api private
    def join(&block)
      return call(&block) if @scheduler.stats[:fibers].zero? || @scheduler.host?

      ::Fiber.new(blocking: false) { @outcome = outcome(&block) }.resume
      leave
    end

    # Runs the block in a fiber, and the loop until it has ended.
    #
    # @api private
    def call(&block)
      locals = Thread.current.keys.to_h { |key| [key, Thread.current[key]] }
      Fiber.schedule do
        @fiber = Fiber.current
        locals.each { |key, value| Thread.current[key] = value }
        @outcome = outcome(&block)
        cancel_others if @own && @outcome.kind != :value
      end
      serve until @outcome
      leave
    end

    private

    # A signal, Thread#raise or an error of a thread with abort_on_exception comes out of `run`: it
    # is the block's, which may rescue it where it waits, as without a loop.
    def serve
      @scheduler.run
    rescue Exception => error # rubocop:disable Lint/RescueException -- handed to the block
      raise if @outcome || @scheduler.host? || !@scheduler.__send__(:waiting_within?, @fiber)

      error.set_backtrace(nil) if error.backtrace&.first&.start_with?(__FILE__)
      @scheduler.fiber_interrupt(@fiber, error) unless joined(error)
    end

    # Whether the block joins the thread that ended with the error: join raises it, and once is
    # enough.
    def joined(error)
      wait = @scheduler.waits.find { |found| found[:owner].equal?(@fiber) }
      thread = wait && wait[:blocker]
      thread.is_a?(Thread) && thread.status.nil? && thread.join && false
    rescue Exception => raised # rubocop:disable Lint/RescueException -- only compared
      raised.equal?(error)
    end

    # The block failed: nobody will wait for what it started.
    def cancel_others
      @scheduler.__send__(:interrupt_all, Cancelled, "the block of NB.run has failed")
    end

    def outcome
      Outcome.new(:value, yield)
    rescue UncaughtThrowError => error
      Outcome.new(:throw, error)
    rescue LocalJumpError => error
      error.reason == :break ? Outcome.new(:value, error.exit_value) : Outcome.new(:raise, error)
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by #leave
      Outcome.new(:raise, error)
    end

    def leave
      case @outcome.kind
      when :value then @outcome.value
      when :throw then throw_on(@outcome.value)
      else raise @outcome.value
      end
    end

    # When nobody outside catches it either, it is reported from where it was thrown.
    def throw_on(uncaught)
      throw(uncaught.tag, uncaught.value)
    rescue UncaughtThrowError
      raise uncaught, cause: uncaught.cause
    end
  end
end
