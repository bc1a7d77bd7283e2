# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"
require_relative "connection_pool/wait_queue"

module NB
  module Drivers
    # At each check-in the connection_pool gem wakes everyone who waits: with 1,000 waiters, more
    # than 50,000 wake-ups for 1,000 check-ins. And a fiber that returns a connection and asks for
    # another is served first, because it still runs; the others wait until it has ended. With this
    # cure the fibers of a loop form a queue, and a check-in hands the connection to the first one.
    #
    # Applies to the gem's own stack only. Subclasses, as in net-http-persistent, may have waiters
    # for different things, and still wake all. Once a fiber of a loop has used a stack, threads
    # outside a loop wait in the same queue. Otherwise a queue that never empties would keep them
    # from ever being served.
    module ConnectionPool
      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          @stack = ::ConnectionPool::TimedStack
          replace_pop
          replace_push
          replace_checkin
          tell_when_changed(:shutdown)
          since_2_5_4 = @stack.method_defined?(:decrement_created)
          tell_when_changed(:decrement_created) if since_2_5_4
        end

        # @return [Boolean] whether who finds nothing in this stack joins a queue
        # @api private
        def queues?(stack)
          Repairs.main? && stack.instance_of?(@stack) && @driver.on? &&
            (Repairs.loop_here || stack.instance_variable_defined?(:@neverblock_queue))
        end

        # @return [Boolean] whether the cure is in force and a loop runs the caller
        # @api private
        def in_loop? = Repairs.main? && @driver.in_loop?

        # Runs the block in a shield, also if something strikes first that was on its way: then a
        # connection that is not given back would be lost.
        #
        # @return the block's value
        # @scheduling may wait, as the block does
        # @api private
        def whole
          begun = false
          NB.shield { (begun = true) && yield }
        ensure
          whole { yield } unless begun # rubocop:disable Style/ExplicitBlockArgument -- no Proc
        end

        private

        def replace_pop
          mine = self
          Repairs.repair(@stack, :pop) do |original|
            proc do |*arguments, **options|
              next __send__(original, *arguments, **options) unless mine.queues?(self)

              given = arguments.last.is_a?(Hash) ? arguments.pop.merge(options) : options
              @mutex.synchronize { (@neverblock_queue ||= WaitQueue.new(self, @mutex)) }
                .pop(given.fetch(:timeout) { arguments.first || 0.5 }, given)
            end
          end
        end

        def replace_push
          Repairs.repair(@stack, :push) do |original|
            proc do |connection, *arguments, **options|
              next if @neverblock_queue&.give(connection)

              __send__(original, connection, *arguments, **options)
            end
          end
        end

        # The gem masks interrupts meanwhile, as the lock may be held by who closes connections, and
        # closing one may wait. Such a mask does not delay what is raised in a fiber.
        def replace_checkin
          mine = self
          Repairs.repair(::ConnectionPool, :checkin) do |original|
            proc do |*arguments, **options|
              next __send__(original, *arguments, **options) unless mine.in_loop?

              mine.whole { __send__(original, *arguments, **options) }
            end
          end
        end

        # Waiters may make a new connection now, or the pool is shutting down.
        def tell_when_changed(*names)
          names.each do |name|
            Repairs.repair(@stack, name) do |original|
              proc do |*arguments, **options, &block|
                __send__(original, *arguments, **options, &block)
                  .tap { @neverblock_queue&.wake_all }
              end
            end
          end
        end
      end
    end

    register("connection_pool", constant: "ConnectionPool::TimedStack",
                                version: "ConnectionPool::VERSION",
                                versions: [">= 2.4", "< 4"]) do |driver|
      ConnectionPool.install(driver)
    end
  end
end
