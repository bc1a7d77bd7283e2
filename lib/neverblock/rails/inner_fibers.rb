# frozen_string_literal: true

module NB
  module Rails
    # With its state per fiber, Rails gives none to a fiber within a request, such as that of an
    # Enumerator or of a streamed layout: no Current there, and queries go by another connection,
    # outside of the request's transaction. Here the state is that of the fiber which the loop runs.
    module InnerFibers
      # @return [Fiber] whose state it is; outside of a loop the one that runs, as in Rails
      # @scheduling never waits
      # @thread any
      def self.current
        scheduler = Fiber.scheduler
        (scheduler.current if scheduler.is_a?(Scheduler)) || Fiber.current
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport::IsolatedExecutionState.instance_variable_set(:@scope, self)
      end
    end
  end
end
