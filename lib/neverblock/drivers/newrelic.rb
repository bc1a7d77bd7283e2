# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # New Relic hands its transaction on to fibers and threads that are made in it. It loses it in
    # an Enumerator, and in what runs in fibers and threads that were there before. And it takes the
    # thread for the one who is busy, with all its requests. Cured, these go on in the transaction,
    # and each fiber is busy by itself. Only what outlives the transaction is not in its trace, as
    # with threads.
    module NewRelic
      # Where the loop's fiber has what New Relic keeps in it, for fibers within it.
      STATE = :@neverblock_newrelic
      # Which fiber has an id. A search through all objects would take its time for each fiber.
      FIBERS = ObjectSpace::WeakMap.new
      private_constant :STATE, :FIBERS

      # In front of NewRelic::ThreadLocalStorage's own methods.
      module Storage
        # As New Relic.
        # @api private
        def get(thread, key)
          value = super
          return value unless thread.equal?(Thread.current)

          value.nil? ? NewRelic.outer(key) : NewRelic.keep(key, value)
        end

        # As New Relic.
        # @api private
        def set(thread, key, value)
          NewRelic.keep(key, value) if thread.equal?(Thread.current)
          super
        end
      end

      # In front of NewRelic::Agent::Transaction.
      module Transaction
        # As New Relic.
        # @api private
        def parent_segment_key = super || NewRelic.around&.object_id

        # As New Relic.
        # @api private
        def thread_starting_span
          fiber = NewRelic.around
          super unless fiber && current_segment_by_thread[fiber.object_id]
        end
      end

      # In front of the own methods of NewRelic::Agent::TransactionTimeAggregator.
      module Busy
        # As New Relic.
        # @api private
        def current_execution_context
          fiber = NewRelic.fiber or return super
          FIBERS[fiber.object_id] = fiber
        end

        # As New Relic; it calls the one above by name.
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

        # @return [Fiber, nil] of the loop, in a fiber within that one
        # @api private
        def around = (LoopFiber.around if @driver.on?)

        # @return [Object, nil] what the loop's fiber has there, in a fiber within that one
        # @api private
        def outer(key) = around&.instance_variable_get(STATE)&.[](key)

        # Notes what the loop's fiber has there.
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
