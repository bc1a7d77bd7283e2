# frozen_string_literal: true

require "timeout"
require_relative "../errors"

module NB
  # Raises an exception in another fiber, whichever scheduler runs it.
  #
  # The fiber's current wait raises the exception, or else its next one does; the sender continues
  # at once. Ruby 4.0 has a hook for this (`fiber_interrupt`). Without the hook, Fiber#raise alone
  # does not help: on a scheduler that transfers between fibers, the raising fiber would never come
  # back.
  #
  # An exception made with `new` has no backtrace until it is raised. By that a sender can tell
  # whether it has arrived; see {Group}.
  module Interruption
    # An object that io-event's selector accepts in place of a fiber. The selector asks `alive?`,
    # then calls `transfer` from the loop, where Fiber#raise strands no fiber. For async before
    # about 2.26.
    Pending = Struct.new(:fiber, :exception) do
      # @return [Boolean] whether the fiber to raise in still exists
      def alive? = fiber.alive?

      # Called by the loop when it is this entry's turn.
      def transfer = fiber.raise(exception)
    end
    # Accepts the note that an exception was sent, for classes other than {Cancelled}.
    NOBODY = Struct.new(:sent).new
    private_constant :Pending, :NOBODY

    # @param scheduler [Object]
    # @return [Integer] how many shields ({NB.shield}) are around the current fiber's code
    # @scheduling never waits
    def self.depth(scheduler)
      scheduler.respond_to?(:shield_depth) ? scheduler.shield_depth : 0
    end

    # Whether the exception that left a block struck it from outside, at an arbitrary point. Then
    # nobody knows what the block left half done. A Timeout.timeout with an error class of its own
    # is recognized only in our loop.
    #
    # @param error [Exception]
    # @return [Boolean]
    # @scheduling never waits
    # @thread any
    def self.struck?(error)
      return true if !error.is_a?(StandardError) || error.is_a?(::Timeout::Error)

      scheduler = Fiber.scheduler
      scheduler.respond_to?(:struck?) && scheduler.struck?(error)
    end

    # The same for an `ensure`, which knows only `$!`. Some interrupts leave no error there, since
    # they throw: Thread#kill; Fiber#kill, which is recognized only in our loop; and outside a loop
    # a timeout of the gem timeout before 0.4 (Ruby 3.1 brings one). With such a gem, whatever
    # leaves a block early within Timeout.timeout counts. An `ensure` of the block may have raised
    # after the interrupt, so the causes of the error count, too.
    #
    # @param error [Exception, nil] `$!`
    # @return [Boolean]
    # @scheduling never waits
    # @thread any
    def self.struck_block?(error)
      return true if killed? || within_throwing_timeout?

      error = error.cause until error.nil? || (struck = struck?(error))
      struck ? true : false
    end

    # The variable: see Repairs.
    def self.killed?
      Thread.current.status == "aborting" ||
        Fiber.current.instance_variable_defined?(:@neverblock_killed)
    end
    private_class_method :killed?

    # Timeout::Error.catch runs the block that the timeout leaves by a throw.
    def self.within_throwing_timeout?
      return false unless ::Timeout::Error.respond_to?(:catch)

      file, = ::Timeout::Error.method(:catch).source_location
      caller_locations.any? { |frame| frame.path == file && frame.base_label == "catch" }
    end
    private_class_method :within_throwing_timeout?

    # Whether a timeout raised this error, and its block will still turn it into a Timeout::Error.
    #
    # @param error [Exception]
    # @return [Boolean]
    # @scheduling never waits
    # @thread any
    def self.expired?(error)
      [(Scheduler::Expired if defined?(Scheduler::Expired)),
       (::Timeout::ExitException if defined?(::Timeout::ExitException))]
        .compact.any? { |type| error.is_a?(type) }
    end

    # @param scheduler [Object] the scheduler that runs the fiber
    # @param fiber [Fiber] not the current one; nothing happens if it has ended
    # @param exception [Exception] an instance, so the receiver can recognize it; a {Cancelled} is
    #   marked as `sent` on the very line that sends it, so no interrupt comes in between
    # @param depth [Integer] how many shields were around the fiber's code when the cause began
    # @return [void]
    # @raise [NB::WrongThreadError] from another thread, if the scheduler offers no way to do it
    # @scheduling never waits
    # @thread any, given `fiber_interrupt` or the gem async
    def self.deliver(scheduler, fiber, exception, depth: 0)
      noted = exception.is_a?(Cancelled) ? exception : NOBODY
      if depth.positive?
        scheduler.interrupt_at(fiber, [exception, noted.sent = true].first, depth)
      elsif scheduler.respond_to?(:fiber_interrupt)
        scheduler.fiber_interrupt(fiber, [exception, noted.sent = true].first)
      elsif scheduler.respond_to?(:push)
        pending = Pending.new(fiber, exception)
        scheduler.unblock(nil, [pending, noted.sent = true].first)
      elsif Fiber.scheduler.equal?(scheduler)
        fiber.raise([exception, noted.sent = true].first)
      else
        raise WrongThreadError, "#{scheduler.class} cannot interrupt a fiber from another thread"
      end
    end
  end
end
