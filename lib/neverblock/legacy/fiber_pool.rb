# frozen_string_literal: true

require_relative "../sync/fiber_pool"
require_relative "fiber"
require_relative "pool"

module NB
  module Pool
    # {NB::FiberPool} with the additional abilities of its ancestor of 2008: it works without a
    # loop, its blocks may stop at Fiber.yield and continue when somebody resumes their fiber, and
    # they may register callbacks for their end.
    #
    # Without a loop, a block runs at once in a plain fiber until its end or its Fiber.yield. When
    # it ends, the code that had resumed it runs the blocks that wait in the queue.
    #
    # @example Without a loop
    #   pool = NB::Pool::FiberPool.new(10)
    #   stopped = []
    #   15.times { |i| pool.spawn { stopped << Fiber.current; Fiber.yield; puts i } }
    #   stopped.first.resume # prints 0; the blocks 10 to 14 run until their Fiber.yield
    class FiberPool < NB::FiberPool
      # @return [Hash{Integer=>Fiber}] without a loop, the busy fibers by object_id
      attr_reader :busy_fibers
      # @return [Array<Proc>] without a loop, the blocks that wait for a fiber
      attr_reader :queue

      # @param count [Integer] the maximum number of fibers, 1 or more
      # @param options [Hash] as for {NB::FiberPool}
      def initialize(count = 50, **options)
        super
        @busy_fibers = {}
        @queue = []
        @fibers = ::Fiber.scheduler ? [] : Array.new(size) { plain_fiber }
      end

      # Runs the block in a fiber of the pool, or queues it.
      #
      # @param evented [Boolean] false: the block's waits stop the whole thread
      # @yield an exception is reported and affects no other block
      # @return [self]
      # @raise [NB::ClosedError] after {#close}
      # @scheduling never waits, but the block may run until its own first wait
      def spawn(evented = true, &block)
        return super() { carry(evented, block) } if ::Fiber.scheduler && block
        raise ArgumentError, "spawn needs a block" unless block
        raise ClosedError, "the fiber pool is closed" if closed?

        fiber = @fibers.shift || (plain_fiber if @busy_fibers.size < size)
        return enqueue_plain(block) unless fiber

        @busy_fibers[fiber.object_id] = fiber
        fiber[:neverblock] = evented
        fiber.resume(block)
        self
      end

      # @return [Array<Fiber>] in a loop the existing ones; without one the free ones
      # @scheduling never waits
      def fibers = ::Fiber.scheduler ? super : @fibers

      # @return [self]
      # @raise [NBError] without a loop, if blocks have stopped, because nobody here could resume
      #   them
      # @scheduling may wait
      def wait
        return super if ::Fiber.scheduler || @busy_fibers.empty?

        raise NBError, "#{@busy_fibers.size} blocks have stopped with Fiber.yield; resume them"
      end

      private

      def enqueue_plain(block)
        @queue << block
        self
      end

      # In a loop, the worker stays with the block until it has ended, so there are never more than
      # `count`.
      def carry(evented, block)
        Legacy::CarriedFiber.new(evented) { call_block(block) }.carry
      end

      # The way of 2008: a fiber takes one block after the other.
      def plain_fiber
        NB::Fiber.new do |block|
          loop do
            begin
              call_block(block)
            rescue *FAILURES => error
              @on_error.call(error)
            end
            block = @queue.shift || rest_plain
          end
        ensure
          @busy_fibers.delete(::Fiber.current.object_id) # ended by something other than an error
        end
      end

      def rest_plain
        fiber = ::Fiber.current
        @busy_fibers.delete(fiber.object_id)
        @fibers.unshift(fiber)
        ::Fiber.yield
      end

      # The callbacks run in reverse order, like destructors, even after an error.
      def call_block(block)
        callbacks = ::Fiber.current[:callbacks] = []
        block.call
      ensure
        callbacks.pop.call until callbacks.empty?
      end
    end
  end
end
