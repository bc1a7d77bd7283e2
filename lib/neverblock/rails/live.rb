# frozen_string_literal: true

require_relative "../error_report"
require_relative "../sync/inheritance"
require_relative "share_lock"

module NB
  module Rails
    # ActionController::Live runs an action on a thread of its own, so that it can stream. In a loop
    # a fiber runs it instead: it costs less, waits like all others, and sees what the request sees
    # (Rails' thread does not, with isolation per fiber).
    #
    # Rails' way: `process` records the locals of the request's thread; `new_controller_thread`
    # starts the thread; there the locals are copied, and `share_with(the request's thread)` takes
    # the state over. With isolation per fiber the state belongs to the fiber, so a thread has none
    # to pass on. Our way, step by step:
    #
    # 1. process: the request's fiber has its state in its local {INHERITED} meanwhile, which Rails
    # copies with the others. 2. new_controller_thread: in a loop, starts a fiber; outside a loop,
    # Rails' thread. 3. share_with: takes the state from that local if there is one, otherwise from
    # the thread. So it is there also outside a loop, and in tests that run the action in place.
    module Live
      # Key of the fiber-local with the state to inherit.
      INHERITED = :neverblock_live_state

      # Prepended to ActionController::Live.
      module InFibers
        # Works like Rails' own method, which passes on the thread's state. With isolation per fiber
        # that is empty, and all state would be lost. The thread is left alone: other requests run
        # on it meanwhile.
        # @api private
        def process(...)
          state = ActiveSupport::IsolatedExecutionState
          return super if state.isolation_level != :fiber || state.context.equal?(Thread.current)

          locals = Thread.current
          before = locals[INHERITED]
          locals[INHERITED] = state.context.active_support_execution_state || {}
          begin
            super
          ensure
            locals[INHERITED] = before
          end
        end

        private

        def new_controller_thread(&block)
          return super unless NB.running?

          action = NB::Inheritance.trace(block)
          state = ActiveSupport::IsolatedExecutionState
          sharer = state[ShareLock::SHARER]
          Fiber.schedule do
            state[ShareLock::SHARER] = sharer
            action.call
          rescue SystemExit, NoMemoryError => error # they would end the loop
            ErrorReport.write("neverblock: this ended an action of ActionController::Live", error)
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
