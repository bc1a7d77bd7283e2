# frozen_string_literal: true

require_relative "../sync/fiber_pool"
require_relative "fiber"
require_relative "pool"

module NB
  module Pool
    # {NB::FiberPool}, and what its ancestor of 2008 could beside: it works without a loop too, its
    # blocks may stop with Fiber.yield and go on when somebody resumes their fiber, and they may
    # leave callbacks for their end.
    #
    # Without a loop a block runs at once in a plain fiber, until its end or its Fiber.yield; when
    # it ends, whoever had resumed it runs the blocks that wait in the queue.
    #
    # @example Without a loop
    #   pool = NB::Pool::FiberPool.new(10)
    #   stopped = []
    #   15.times { |i| pool.spawn { stopped << Fiber.current; Fiber.yield; puts i } }
    #   stopped.first.resume # prints 0; the blocks 10 to 14 run until their Fiber.yield
    class FiberPool < NB::FiberPool
      # @return [Hash{Integer=>Fiber}] without a loop, the fibers at work by object_id
      attr_reader :busy_fibers
      # @return [Array<Proc>] without a loop, the blocks that no fiber is free for
      attr_reader :queue

      # @param count [Integer] the most fibers, 1 or more
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
      # @yield what it raises is reported and harms no other block
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

      # @return [Array<Fiber>] in a loop those there are; without one those that are free
      # @scheduling never waits
      def fibers = ::Fiber.scheduler ? super : @fibers

      # @return [self]
      # @raise [NBError] without a loop, if blocks have stopped: nobody here could resume them
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

      # In a loop the worker stays with the block until it has ended, so there are never more.
      def carry(evented, block)
        Legacy::CarriedFiber.new(evented) { call_block(block) }.carry
      end

      # As it was: a fiber takes one block after the other.
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
          @busy_fibers.delete(::Fiber.current.object_id) # something else than an error ends it
        end
      end

      def rest_plain
        fiber = ::Fiber.current
        @busy_fibers.delete(fiber.object_id)
        @fibers.unshift(fiber)
        ::Fiber.yield
      end

      # The callbacks come in reverse order, as destructors do, also after an error.
      def call_block(block)
        callbacks = ::Fiber.current[:callbacks] = []
        block.call
      ensure
        callbacks.pop.call until callbacks.empty?
      end
    end
  end
end
