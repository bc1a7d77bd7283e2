# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # New Relic passes its transaction on to fibers and threads made inside it. It loses the
    # transaction in an Enumerator, and in fibers and threads that existed before. And it counts the
    # thread as busy for all its requests. With this cure, such code continues the transaction, and
    # each fiber counts as busy by itself. As with threads, only work that outlives the transaction
    # is missing in its trace.
    module NewRelic
      # The loop's fiber keeps New Relic's state here, for the fibers inside it.
      STATE = :@neverblock_newrelic
      # Which fiber has which id. Searching all objects would take too long for each fiber.
      FIBERS = ObjectSpace::WeakMap.new
      private_constant :STATE, :FIBERS

      # Prepended to NewRelic::ThreadLocalStorage's singleton class.
      module Storage
        # Works like New Relic's own method.
        # @api private
        def get(thread, key)
          value = super
          return value unless thread.equal?(Thread.current)

          value.nil? ? NewRelic.outer(key) : NewRelic.keep(key, value)
        end

        # Works like New Relic's own method.
        # @api private
        def set(thread, key, value)
          NewRelic.keep(key, value) if thread.equal?(Thread.current)
          super
        end
      end

      # Prepended to NewRelic::Agent::Transaction.
      module Transaction
        # Works like New Relic's own method.
        # @api private
        def parent_segment_key = super || NewRelic.around&.object_id

        # Works like New Relic's own method.
        # @api private
        def thread_starting_span
          fiber = NewRelic.around
          super unless fiber && current_segment_by_thread[fiber.object_id]
        end
      end

      # Prepended to the singleton class of NewRelic::Agent::TransactionTimeAggregator.
      module Busy
        # Works like New Relic's own method.
        # @api private
        def current_execution_context
          fiber = NewRelic.fiber or return super
          FIBERS[fiber.object_id] = fiber
        end

        # Works like New Relic's own method, which calls the one above by name.
        # @api private
        def current_execution_context_id = current_execution_context.object_id

        private

        def thread_by_id(id) = FIBERS[id] || Thread.list.find { |thread| thread.object_id == id }
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::NewRelic::ThreadLocalStorage.singleton_class.prepend(Storage)
          ::NewRelic::Agent::Transaction.prepend(Transaction)
          ::NewRelic::Agent::TransactionTimeAggregator.singleton_class.prepend(Busy)
          Inheritance.add(trace: true) { capture }
        end

        # @return [Fiber, nil] of the loop
        # @api private
        def fiber = (LoopFiber.current if @driver.on?)

        # @return [Fiber, nil] of the loop, if the caller runs in a fiber inside it
        # @api private
        def around = (LoopFiber.around if @driver.on?)

        # @return [Object, nil] the loop's fiber's value, if the caller runs in a fiber inside it
        # @api private
        def outer(key) = around&.instance_variable_get(STATE)&.[](key)

        # Stores the value of the loop's fiber.
        #
        # @return [Object] the value
        # @api private
        def keep(key, value)
          return value if !Fiber.scheduler.is_a?(Scheduler) || LoopFiber.around

          fiber = Fiber.current
          state = fiber.instance_variable_get(STATE) || fiber.instance_variable_set(STATE, {})
          state[key] = value
        end

        private

        def capture
          tracer = ::NewRelic::Agent::Tracer
          return unless @driver.on? && tracer.thread_tracing_enabled? && tracer.current_transaction

          tracer.thread_block_with_current_transaction { |block| block.call }
        end
      end
    end

    register("newrelic_rpm", constant: "NewRelic::Agent::TransactionTimeAggregator",
                             version: "NewRelic::VERSION::STRING",
                             versions: [">= 10.9", "< 11"]) do |driver|
      NewRelic.install(driver)
    end
  end
end
