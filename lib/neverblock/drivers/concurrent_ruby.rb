# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # Concurrent::ThreadLocalVar has a value for each thread. Gems keep there what belongs to a
    # request (shopify_api the session of a shop, Rails Event Store the metadata of events), so all
    # requests of a loop would share it. With this cure, it has a value for each fiber of the loop.
    # Such a fiber begins with the default, as a thread does; those of {NB.gather}, {NB.async} and
    # the like begin with copies.
    #
    # concurrent-ruby keeps what a fiber has set in a Concurrent::FiberLocalVar (each
    # ReentrantReadWriteLock has one) until the fiber ends, and a server's fibers do not end: each
    # request left its values behind. With this cure, only the fiber refers to them.
    module ConcurrentRuby
      # Prepended to the classes of the two objects that have all values.
      module Values
        # Works like concurrent-ruby's own method.
        # @api private
        def fetch(index)
          fiber = neverblock_fiber or return super
          user, value = fiber.instance_variable_get(neverblock_name)&.[](index)
          user == neverblock_users[index] ? value : yield
        end

        # Works like concurrent-ruby's own method.
        # @api private
        def set(index, value)
          fiber = neverblock_fiber or return super
          name = neverblock_name
          values = fiber.instance_variable_get(name) || fiber.instance_variable_set(name, {})
          values[index] = [neverblock_users[index], value]
          value
        end

        # Works like concurrent-ruby's own method: a variable has been collected, and the next one
        # gets its index.
        # @api private
        def free_index(index)
          neverblock_users[index] += 1
          super
        end

        private

        # @return [Hash{Integer => Integer}] for each index: how many variables had it before
        def neverblock_users = @neverblock_users ||= Hash.new(0)
      end

      # For ThreadLocalVar.
      module ThreadLocals
        include Values

        # @return [Hash{Integer => Array}] for another fiber
        # @api private
        def neverblock_copy
          fiber = neverblock_fiber
          values = fiber ? fiber.instance_variable_get(neverblock_name) : neverblock_of_thread
          values&.transform_values { |user, value| [user, Inheritance.copy(value) || value] }
        end

        # Gives the calling fiber these values.
        # @api private
        def neverblock_begin_with(values)
          neverblock_fiber&.instance_variable_set(neverblock_name, values)
        end

        private

        def neverblock_fiber = ConcurrentRuby.fiber
        def neverblock_name = :@neverblock_thread_locals

        def neverblock_of_thread
          values = {}
          locals&.each_with_index do |value, index|
            own = ::Concurrent::NULL.equal?(value) ? nil : value
            values[index] = [neverblock_users[index], own] unless value.nil?
          end
          values
        end
      end

      # For FiberLocalVar.
      module FiberLocals
        include Values

        private

        def neverblock_fiber = ConcurrentRuby.fiber && Fiber.current
        def neverblock_name = :@neverblock_fiber_locals
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Concurrent.const_get(:ThreadLocals).prepend(ThreadLocals)
          ::Concurrent.const_get(:FiberLocals).prepend(FiberLocals)
          Inheritance.add { capture }
        end

        # @return [Fiber, nil] the owner of the values; nil: the thread
        # @api private
        def fiber = (LoopFiber.current if @driver.on?)

        private

        def capture
          locals = ::Concurrent::ThreadLocalVar::LOCALS
          values = locals.neverblock_copy if @driver.on?
          return if values.nil? || values.empty?

          lambda do |block|
            locals.neverblock_begin_with(values)
            block.call
          end
        end
      end
    end

    register("concurrent-ruby", constant: "Concurrent::ThreadLocalVar::LOCALS",
                                features: %w[concurrent concurrent-ruby
                                             concurrent/atomic/thread_local_var
                                             concurrent/atomic/lock_local_var
                                             concurrent/atomic/reentrant_read_write_lock],
                                version: "Concurrent::VERSION",
                                versions: [">= 1.2", "< 2"]) do |driver|
      ConcurrentRuby.install(driver)
    end
  end
end
