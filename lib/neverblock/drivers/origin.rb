# frozen_string_literal: true

require_relative "../fiber_state"
require_relative "../loop/repairs"
require_relative "../sync/interruption"

module NB
  module Drivers
    # The calling fiber, for a library that remembers the calling thread and later raises in it. All
    # fibers of a loop share that thread, and an exception raised in it strikes the block of
    # {NB.run}.
    #
    # @api private
    class Origin
      # @return [Origin, Thread] the thread, if no loop runs the caller
      def self.here
        scheduler = Repairs.loop_here
        scheduler ? new(scheduler) : Thread.current
      end

      # @param scheduler [NB::Scheduler] runs the caller
      def initialize(scheduler)
        @scheduler = scheduler
        @fiber = scheduler.current || Fiber.current
        FiberState.at_end(self, @fiber) { @ended = true }
      end

      # The same as Thread#raise: the fiber's current wait raises the error, or else its next one.
      # Nothing happens if its work has ended, even if another one's has begun in it.
      #
      # @return [nil]
      # @scheduling never waits
      # @thread any
      def raise(error)
        Interruption.deliver(@scheduler, @fiber, error) if !@ended && @fiber.alive?
        nil
      end
    end
  end
end
