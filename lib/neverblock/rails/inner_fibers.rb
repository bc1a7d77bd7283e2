# frozen_string_literal: true

module NB
  module Rails
    # With state per fiber, Rails gives none to a fiber inside a request, such as an Enumerator's or
    # a streamed layout's: Current is empty there, and queries use another connection, outside the
    # request's transaction. With this cure such a fiber has the state of the fiber that the loop
    # runs. On a thread without a scheduler (Puma's, a job's, the console's) it has the thread's
    # state, as Rails intends there. The block of {NB.run} is the thread's own code, which waits for
    # it. So it has the thread's state, too, and writes into the same shard and the same
    # transaction.
    module InnerFibers
      # @return [Fiber, Thread] the owner of the state; under another scheduler, the current fiber
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
