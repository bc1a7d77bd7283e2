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

      # Rails names its own owner again whenever the level changes, as tests of gems do for a block.
      module Level
        # @param level [Symbol] :thread or :fiber
        # @return [void]
        # @scheduling never waits
        def isolation_level=(level)
          super
          @scope = InnerFibers if level == :fiber
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        state = ActiveSupport::IsolatedExecutionState
        state.singleton_class.prepend(Level)
        state.instance_variable_set(:@scope, self) if state.isolation_level == :fiber
      end
    end
  end
end
