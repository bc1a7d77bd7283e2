# frozen_string_literal: true

require_relative "../errors"
require_relative "../sync/interruption"
require_relative "job_stop"

module NB
  module Drivers
    # The loop of a queue's worker: it runs what other threads hand to it, at most `size` blocks at
    # once, on the thread that calls {#work}. Solid Queue and GoodJob run their jobs in it.
    #
    # A stop raises {Stopped} in each job that waits: its `ensure` blocks run, its transaction is
    # rolled back. What the queue does before and after a job is not interrupted.
    class JobLoop
      # Raised in a job that must neither succeed nor fail.
      Stopped = Class.new(Cancelled)
      # The thread variable that holds a thread's loop.
      KEY = :neverblock_job_loop
      private_constant :KEY

      class << self
        # @return [JobLoop, nil] the loop that runs on this thread
        # @api private
        def current = Thread.current.thread_variable_get(KEY)

        # @return [Boolean] false if the application leaves Rails, and so its queues, as they are:
        #   jobs in fibers would share what Rails keeps per thread
        # @api private
        def wanted?
          return true unless defined?(::Rails.application) && ::Rails.application

          config = ::Rails.application.config
          config.respond_to?(:neverblock) && config.neverblock.enabled
        end
      end

      # @param size [Integer] the most blocks that run at once
      # @param on_error [#call] gets what a block has raised
      # @param name [String] the queue's name in {NB.pools} and `nb_pool_…`
      # @api private
      def initialize(size, on_error:, name:)
        @size = size
        @on_error = on_error
        @name = name
        @blocks = Thread::Queue.new
        @stop = Thread::Queue.new
        @running = {}.compare_by_identity # fiber => what would stop its job
      end

      # Runs what is posted, until {#close} was called and the last block has ended.
      # @return [void]
      # @scheduling always waits
      # @api private
      def work
        Thread.current.thread_variable_set(KEY, self)
        NB.run do
          fibers = NB::FiberPool.new(@size, on_error: @on_error, name: @name)
          NB.async(background: true) { @stop.pop && stop_all }
          while (block = next_block)
            fibers.spawn(&block)
          end
          fibers.close.wait
        end
      ensure
        Thread.current.thread_variable_set(KEY, nil)
      end

      # @yield in a fiber of the loop
      # @return [void]
      # @raise [ClosedQueueError] after {#close}
      # @thread any
      # @api private
      def post(&block)
        @blocks << block
        nil
      end

      # Takes no more blocks. Blocks that were posted before still run.
      # @return [void]
      # @thread any
      # @api private
      def close = @blocks.close

      # @return [Boolean]
      # @thread any
      # @api private
      def closed? = @blocks.closed?

      # Ends each running job at its next wait, and each later job when it begins.
      # @return [void]
      # @thread any
      # @api private
      def stop = @stop << true

      # Runs the block so that a stop can end it.
      #
      # @return the block's value
      # @raise [Stopped] if the block was stopped, whatever it has made of that
      # @scheduling may wait
      # @api private
      def cancellable(&block)
        return yield if @running.key?(Fiber.current)

        stop = Stopped.new("the worker stops")
        raise stop if @stopping

        JobStop.set(@running[Fiber.current] = stop)
        JobStop.first { finish(&block) }
      ensure
        JobStop.set(nil) if stop
      end

      private

      # What another thread raises in this one (Thread#raise) is meant for one of the jobs, and
      # nobody knows which: it ends none.
      def next_block
        @blocks.pop
      rescue StandardError => error
        @on_error.call(error)
        retry
      end

      def finish
        yield
      ensure
        @running.delete(Fiber.current)
        Fiber.scheduler.forget_interrupts # what is noted of the job is noted in full
      end

      def stop_all
        @stopping = true
        @running.each { |fiber, stop| Interruption.deliver(Fiber.scheduler, fiber, stop) }
      end
    end
  end
end
