# frozen_string_literal: true

require "timeout"
require_relative "../errors"

module NB
  # Raises an exception in another fiber, whichever scheduler runs it.
  #
  # The exception comes out of the wait the fiber is in, or out of its next one; the fiber that
  # asked goes on at once. Ruby 4.0 has a hook for this (`fiber_interrupt`). Without it
  # Fiber#raise alone is no cure: on a scheduler that transfers between fibers the raising fiber
  # would never come back.
  #
  # An exception that was made with `new` has no backtrace until it is raised, which is how a
  # sender can tell whether it has arrived; see {Group}.
  module Interruption
    # What io-event's selector accepts in place of a fiber: it asks `alive?`, then calls `transfer`
    # from the loop, where Fiber#raise strands nobody. For async before 2.26 or so.
    Pending = Struct.new(:fiber, :exception) do
      # @return [Boolean] whether there is still a fiber to raise in
      def alive? = fiber.alive?

      # Called by the loop when the turn of this entry has come.
      def transfer = fiber.raise(exception)
    end
    # What takes the note that an exception of another class is sent.
    NOBODY = Struct.new(:sent).new
    private_constant :Pending, :NOBODY

    # @param scheduler [Object]
    # @return [Integer] how many shields ({NB.shield}) the current fiber is inside of
    # @scheduling never waits
    def self.depth(scheduler)
      scheduler.respond_to?(:shield_depth) ? scheduler.shield_depth : 0
    end

    # Whether the exception that left a block has struck it from outside, at any point: then nobody
    # knows what the block has left half done. Timeout.timeout with a class of its own is known in
    # a loop of ours only.
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

    # Whether a timeout that is still to come out of its block, as a Timeout::Error, has raised it.
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
    # @param exception [Exception] an instance, so that the receiver can know it again; a
    #   {Cancelled} is noted as `sent` on the very line that sends it: no interrupt comes in between
    # @param depth [Integer] how many shields the fiber was inside of when the cause began
    # @return [void]
    # @raise [NB::WrongThreadError] from another thread on a scheduler that offers no way to do that
    # @scheduling never waits
    # @thread any, given `fiber_interrupt` or gem async
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
