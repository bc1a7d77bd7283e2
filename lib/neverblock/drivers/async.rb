# frozen_string_literal: true

require_relative "../loop/scheduler"
require_relative "registry"

module NB
  module Drivers
    # The gem async has an event loop of its own, and asks `Fiber.scheduler` for things that only
    # that loop can do. With this cure its tasks live in our loop: each is one of our fibers, a
    # child of the loop's {Root}, and waits like all others. `Async { }` starts a task beside the
    # others; `Sync { }` runs its block in the fiber that calls it, where timeouts and cancels reach
    # it. What a request has started continues after the request, as under Falcon and with
    # {NB.async}.
    module Async
      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          require "async" # all of it
          @driver = driver
          %w[task_fiber words timers root].each { |part| require_relative "async/#{part}" }
          Scheduler.include(Words)
          ::Async::Task.const_set(:Fiber, TaskFiber)
          ::Async::Task.prepend(InLoop)
          ::Async::Scheduler.prepend(NotHere)
          old_condition { |node| node.prepend(Waiter) }
          replace_sync
        end

        # @return [Root, nil] of this thread's loop; nil without the cure
        # @api private
        def root
          scheduler = ::Fiber.scheduler
          Root.of(scheduler) if scheduler.is_a?(Scheduler) && @driver&.on?
        end

        private

        # async before 2.25 stores the waiting fibers itself, and transfers to them.
        def old_condition
          condition = ::Async::Condition
          yield condition.const_get(:FiberNode) if condition.const_defined?(:FiberNode, false)
        end

        def replace_sync
          Repairs.replace(::Kernel, :Sync) do |original|
            proc do |annotation: nil, &block|
              root = Drivers::Async.root unless ::Async::Task.current?
              next original.bind_call(self, annotation: annotation, &block) unless root

              root.sync(annotation, &block)
            end
          end
        end
      end

      # Prepended to Async::Task.
      module InLoop
        # Works like async's own method.
        # @api private
        def transient=(value)
          super
          Async.root&.resting(self, value)
        end

        private

        def schedule(&block)
          root = Async.root
          super(&root ? root.carry(self, block) : block)
        end
      end

      # Prepended to Async::Scheduler, which would take the thread from the loop that runs it.
      module NotHere
        # Works like async's own method.
        # @api private
        def initialize(...)
          Async.root and ::Kernel.raise(WrongThreadError, "#{self.class}.new: this thread has " \
            "its event loop, NeverBlock's. Async { } and Sync { } run in it; a reactor of its " \
            "own needs a thread of its own: Thread.new { }")
          super
        end
      end

      # Prepended to IO::Endpoint::Wrapper, whose servers start each connection by Fiber.schedule:
      # in async's own loop that makes a task, which Async::HTTP::Server asks for, and returns the
      # task's fiber.
      class Endpoint < Module
        # @param driver [Driver] of io-endpoint
        def initialize(driver)
          super()
          define_method(:schedule) do |&block|
            next super(&block) unless driver.on? && Async.root

            fiber = nil # the task forgets its own when it ends
            Async { |task| (fiber = ::Fiber.current) && block.call(task) }
            fiber
          end
        end
      end

      # Prepended to what async before 2.25 queues in a condition.
      module Waiter
        # Works like async's own method.
        # @api private
        def transfer(*values)
          root = Async.root
          root ? root.resume(@fiber, *values) : super
        end
      end
    end

    register("async", constant: "Async::Reactor", version: "Async::VERSION",
                      versions: [">= 2.24", "< 3"]) { |driver| Async.install(driver) }
    register("io-endpoint", features: %w[io/endpoint io/endpoint/address_endpoint
                                         io/endpoint/host_endpoint io/endpoint/ssl_endpoint
                                         io/endpoint/unix_endpoint io/endpoint/wrapper],
                            constant: "IO::Endpoint::Wrapper",
                            version: "IO::Endpoint::VERSION") do |driver|
      ::IO::Endpoint::Wrapper.prepend(Async::Endpoint.new(driver))
    end
  end
end
