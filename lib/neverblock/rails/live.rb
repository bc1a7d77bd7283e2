# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "inner_fibers"

module NB
  module Rails
    # ActionController::Live runs an action on a thread of its own, so that it can stream. In a loop
    # a fiber does, which costs less, waits like the others, and sees what the request sees (Rails'
    # thread does not, with isolation per fiber).
    #
    # Rails' way: `process` notes the state of the request's thread, `new_controller_thread` starts
    # the thread, and there `share_with(that thread)` takes the state over. With isolation per fiber
    # the state hangs on the fiber, so a thread has none to hand on. Ours, step by step:
    #
    # 1. process: for its time the thread gets the state that the request's fiber has, so that
    #    Rails finds it outside of a loop, and where a test runs the action in place.
    # 2. new_controller_thread: in a loop starts a fiber instead, with the state in its local
    #    {INHERITED}; outside of one, Rails' thread.
    # 3. share_with: takes the state from that local, if there is one, else from the thread.
    module Live
      # Key of the fiber-local that names what to inherit.
      INHERITED = :neverblock_live_state

      # In front of ActionController::Live.
      module InFibers
        # As Rails, which hands on what the thread has: with isolation per fiber that is nothing,
        # and outside of a loop, or where a test runs the action in place, all state would be lost.
        # @api private
        def process(...)
          state = ActiveSupport::IsolatedExecutionState
          thread = Thread.current
          return super if state.isolation_level != :fiber || state.context.equal?(thread)

          before = thread.active_support_execution_state
          thread.active_support_execution_state = state.context.active_support_execution_state
          begin
            super
          ensure
            thread.active_support_execution_state = before
          end
        end

        private

        def new_controller_thread(&block)
          return super unless NB.running?

          state = InnerFibers.current.active_support_execution_state
          action = NB::Inheritance.trace(block)
          Fiber.schedule do
            Thread.current[INHERITED] = state
            action.call
          ensure
            ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all) if
              defined?(::ActiveRecord::Base)
          end
        end
      end

      # Live hands on the state of a thread, where Rails with isolation per fiber keeps none.
      module Share
        # Something with the state that the fiber of the request had.
        Source = Struct.new(:active_support_execution_state)

        # As Rails, from what the request's fiber had.
        # @api private
        def share_with(other, ...)
          state = Thread.current[INHERITED]
          super(state ? Source.new(state) : other, ...)
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:action_controller) do
          require "action_controller/metal/live"
          ::ActionController::Live.prepend(InFibers)
        end
        ActiveSupport::IsolatedExecutionState.singleton_class.prepend(Share)
      end
    end
  end
end
