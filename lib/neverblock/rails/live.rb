# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "inner_fibers"

module NB
  module Rails
    # ActionController::Live runs an action on a thread of its own, so that it can stream. In a loop
    # a fiber runs it instead: it costs less, waits like all others, and sees what the request sees
    # (Rails' thread does not, with isolation per fiber).
    #
    # Rails' way: `process` records the state of the request's thread; `new_controller_thread`
    # starts the thread; there `share_with(that thread)` takes the state over. With isolation per
    # fiber the state belongs to the fiber, so a thread has none to pass on. Our way, step by step:
    #
    # 1. process: meanwhile the thread gets the state of the request's fiber, so Rails finds it
    # outside a loop, and in tests that run the action in place. 2. new_controller_thread: in a
    # loop, starts a fiber with the state in its local {INHERITED}; outside a loop, Rails' thread.
    # 3. share_with: takes the state from that local if there is one, otherwise from the thread.
    module Live
      # Key of the fiber-local with the state to inherit.
      INHERITED = :neverblock_live_state

      # Prepended to ActionController::Live.
      module InFibers
        # Works like Rails' own method, which passes on the thread's state. With isolation per fiber
        # that is empty: outside a loop, or in tests that run the action in place, all state would
        # be lost.
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

      # Live passes on a thread's state, where Rails with isolation per fiber keeps nothing.
      module Share
        # Stands for a thread, with the state of the request's fiber.
        Source = Struct.new(:active_support_execution_state)

        # Works like Rails' own method, from the state of the request's fiber.
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
