# frozen_string_literal: true

require_relative "names"

module NB
  module Legacy
    # One fiber waits here until another hands it something: with a loop through the loop, without
    # one through Fiber.yield and resume, as in 2008.
    class Hand
      # @return [Fiber] the waiting fiber
      attr_reader :fiber

      # Makes one for the current fiber.
      #
      # @raise [NBError] if this fiber cannot stop
      def initialize
        @fiber = ::Fiber.current
        return @queue = Thread::Queue.new if ::Fiber.current_scheduler
        return unless @fiber.blocking?

        raise NBError, "the pool has nothing free, and code outside a fiber cannot wait"
      end

      # @return the argument of {#give}
      # @scheduling always waits
      def wait = @queue ? @queue.pop : ::Fiber.yield

      # Lets the waiting fiber continue: at the next turn of the loop, or at once if there is no
      # loop.
      # @scheduling never waits
      def give(thing)
        @queue ? @queue.push(thing) : @fiber.resume(thing)
      end
    end
  end
end
