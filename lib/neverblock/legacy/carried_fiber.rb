# frozen_string_literal: true

require_relative "fiber"

module NB
  module Legacy
    # A fiber in which code of 2008 may call Fiber.yield while a loop runs. A fiber of the loop, the
    # carrier, runs it and stays until it has ended. `resume` wakes the carrier, so its caller
    # continues at once and need not wait for what this fiber waits for next.
    class CarriedFiber < NB::Fiber
      alias enter resume
      private :enter

      # The carrier calls this: it runs the block to its end.
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

      # Lets the fiber continue at the next turn of the loop. If it has not stopped yet, its next
      # Fiber.yield returns at once.
      #
      # @param values [Array] the return value of Fiber.yield there
      # @return [nil] not what the fiber yields next, unlike plain fibers
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
