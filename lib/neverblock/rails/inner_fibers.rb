# frozen_string_literal: true

module NB
  module Rails
    # With its state per fiber, Rails gives none to a fiber within a request, such as that of an
    # Enumerator or of a streamed layout: no Current there, and queries go by another connection,
    # outside of the request's transaction. Here the state is that of the fiber which the loop runs,
    # and on a thread without a scheduler (Puma's, a job's, the console's) that of the thread, as
    # Rails has it there. The block of {NB.run} is the thread's own code, which waits for it: it has
    # the thread's state too, so it writes into the same shard and the same transaction.
    module InnerFibers
      # @return [Fiber, Thread] whose state it is; under another scheduler the fiber that runs
      # @scheduling never waits
      # @thread any
      def self.current
        scheduler = Fiber.scheduler
        return Thread.current unless scheduler
        return Fiber.current unless scheduler.is_a?(Scheduler)

        fiber = scheduler.current || Fiber.current
        fiber.equal?(scheduler.thread_fiber) ? Thread.current : fiber
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport::IsolatedExecutionState.instance_variable_set(:@scope, self)
      end
    end
  end
end
