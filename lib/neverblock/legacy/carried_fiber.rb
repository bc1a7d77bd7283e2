# frozen_string_literal: true

require_relative "fiber"

module NB
  module Legacy
    # A fiber in which code of 2008 may call Fiber.yield while a loop runs: a fiber of the loop, its
    # carrier, runs it and stays until it has ended. `resume` wakes the carrier, so the one who
    # resumes goes on at once and need not wait for what this fiber waits for next.
    class CarriedFiber < NB::Fiber
      alias enter resume
      private :enter

      # Called by the carrier: runs the block to its end.
      #
      # @return [void]
      # @raise [Exception] what the block raised
      # @scheduling may wait
      def carry
        @values = Thread::Queue.new
        enter
        enter(*@values.pop) while alive?
      rescue Cancelled => error
        alive? ? self.raise(error) : ::Kernel.raise
      end

      # Lets the fiber go on at the next turn of the loop. It may not have stopped yet: then its
      # next Fiber.yield returns at once.
      #
      # @param values [Array] what Fiber.yield returns there
      # @return [nil] not what it yields next, as plain fibers do
      # @raise [FiberError] if the fiber has ended
      # @scheduling never waits
      # @thread any
      def resume(*values)
        ::Kernel.raise FiberError, "the fiber has ended: #{inspect}" unless alive?

        @values.push(values)
        nil
      end
    end
  end
end
