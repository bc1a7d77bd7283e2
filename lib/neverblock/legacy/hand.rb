# frozen_string_literal: true

require_relative "names"

module NB
  module Legacy
    # Where one fiber waits until another hands it something: in a loop by the loop, without one by
    # Fiber.yield and resume, as in 2008.
    class Hand
      # @return [Fiber] who waits
      attr_reader :fiber

      # For the current fiber.
      #
      # @raise [NBError] if it is one that cannot stop
      def initialize
        @fiber = ::Fiber.current
        return @queue = Thread::Queue.new if ::Fiber.current_scheduler
        return unless @fiber.blocking?

        raise NBError, "the pool has nothing free, and code outside of a fiber cannot wait"
      end

      # @return what {#give} was given
      # @scheduling always waits
      def wait = @queue ? @queue.pop : ::Fiber.yield

      # Lets the waiting fiber go on: at the next turn of the loop, or now if there is no loop.
      # @scheduling never waits
      def give(thing)
        @queue ? @queue.push(thing) : @fiber.resume(thing)
      end
    end
  end
end
