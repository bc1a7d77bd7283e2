# frozen_string_literal: true

require_relative "../loop/scheduler"
require_relative "../loop/runner"
require_relative "../server/config"

module NB
  # What NeverBlock puts in the place of Puma's own parts; see lib/puma/plugin/neverblock.rb.
  module Puma
    # Stands where Puma::ThreadPool stands: one thread with a loop, and in it up to `size` fibers
    # that run requests. Puma's own reactor, parser, cluster and signals stay as they are.
    #
    # Puma makes it, in every worker after the fork; it answers to what Puma's server calls.
    #
    # @api private
    class FiberPool
      # What Puma's server rescues when a stop has taken too long.
      ForceShutdown = ::Puma::ThreadPool::ForceShutdown
      # Seconds that requests get to end after they were cancelled at a shutdown.
      GRACE_SECONDS = 5

      # Given to Puma's block as the thread that processes; a fiber needs no more threads.
      class Processor
        # Puma asks for it; every fiber here may wait.
        # @return [nil]
        def mark_as_io_thread! = nil
        def marked_as_io_thread? = false
      end

      # @return [Integer] fibers made, fibers idle, and what Puma's thread pool also counts
      attr_reader :spawned, :waiting, :trim_requested, :out_of_band_running
      # @return [Integer] as Puma's thread pool: the fewest and the most at a time
      attr_accessor :min, :max

      def initialize(name, options = {}, server: nil, &block)
        @name = name
        @options = options
        @server = server
        @block = block.arity == 1 ? ->(_processor, client) { block.call(client) } : block
        @size = Server::Config.puma_fibers
        @min = @max = @size
        @spawned = @waiting = @trim_requested = @backlog_max = 0
        @mutex = Mutex.new
        @clients = Thread::Queue.new
        @forcible = {}.compare_by_identity
        @thread = Thread.new { run }
      end

      # Queues a client whose request is complete.
      # @return [self]
      def <<(work)
        raise "Unable to add work while shutting down" if @clients.closed?

        @clients << work
        @backlog_max = [@backlog_max, @clients.size].max
        self
      end

      # @return [Integer] requests that wait for a fiber
      def backlog = @clients.size
      # @return [Integer] the longest backlog since {#reset_max}
      def backlog_max = @backlog_max
      # @return [Integer] 0
      def reset_max = @backlog_max = 0
      # @return [Integer] requests that could begin at once
      def pool_capacity = [@waiting + @size - @spawned, 0].max
      # @return [Integer] requests that run or wait, by Puma's word for them
      def busy_threads = @spawned - @waiting + @clients.size

      # @return [Hash{Symbol => Integer}] as Puma::ThreadPool#stats
      def stats
        {backlog: backlog, running: @spawned, pool_capacity: pool_capacity,
         busy_threads: busy_threads,
         io_threads: 0, backlog_max: @backlog_max}
      end

      # Runs the block under the pool's lock; nests.
      # @return the block's value
      def with_mutex(&block) = @mutex.owned? ? yield : @mutex.synchronize(&block)
      # Nothing to reap: fibers that end are made anew.
      # @return [nil]
      def auto_reap!(*) = nil
      # Nothing to trim: idle fibers cost a stack each and are few.
      # @return [nil]
      def auto_trim!(*) = nil
      # @return [nil] see {#auto_trim!}
      def trim(*) = nil
      # @return [nil] see {#auto_reap!}
      def reap = nil
      # @return [nil] fibers are made when work comes
      def spawn_thread_if_needed = nil
      # @return [nil] out-of-band work runs in its own fiber
      def wait_while_out_of_band_running = nil

      # Puma 6 asks before it accepts.
      def wait_until_not_full
        sleep 0.001 while busy_threads >= @size && !@clients.closed?
      end

      # Puma 6, in a cluster: let a worker with nothing to do accept first.
      def wait_for_less_busy_worker(delay_seconds)
        sleep delay_seconds if delay_seconds&.positive? && busy_threads.positive?
      end

      # Around the application: what a forced stop may interrupt.
      def with_force_shutdown
        raise ForceShutdown if @forced

        @forcible[Fiber.current] = true
        yield
      ensure
        @forcible.delete(Fiber.current)
      end

      # @param timeout [Numeric] seconds that requests get; -1, and what Puma 6 leaves out: no limit
      def shutdown(timeout = -1)
        @clients.close
        return @thread.join if timeout == -1
        return if @thread.join(timeout)

        @forced = true
        @forcible.each_key { |fiber| @scheduler.fiber_interrupt(fiber, ForceShutdown.new) }
        @thread.join(GRACE_SECONDS) || @thread.kill
      ensure
        let_main_leave_its_write
      end

      private

      # Puma's server thread closes its pipe after this, while the main thread may still be inside
      # the write to it by which TERM stopped the server. In Ruby 3.4 IO#close tells that thread by
      # an IOError and waits for it; when the IOError comes out of the very lock by which the writer
      # wants to say that it has left, the closer waits for ever.
      def let_main_leave_its_write
        return unless RUBY_VERSION.start_with?("3.4")

        sleep 0.005 while Thread.main.backtrace&.first.to_s.match?(/[#'](<<|write)'\z/)
      end

      def run
        ::Puma.set_thread_name("#{@name} fibers")
        Thread.current.puma_server = @server if Thread.current.respond_to?(:puma_server=)
        call_hooks(:before_thread_start)
        Runner.run(backend: nil, repairs: true) do
          @scheduler = Fiber.scheduler
          spawn_fiber
        end
        call_hooks(:before_thread_exit)
      end

      # There is always one fiber that waits for work, until there are `size` of them.
      def spawn_fiber
        @spawned += 1
        Fiber.schedule { work }
      end

      def work
        processor = Processor.new
        while (client = take)
          spawn_fiber if @waiting.zero? && @spawned < @size
          process(processor, client)
        end
      ensure
        @spawned -= 1
      end

      def take
        @waiting += 1
        @clients.pop
      ensure
        @waiting -= 1
      end

      def process(processor, client)
        @block.call(processor, client)
      rescue StandardError => error
        warn "Error reached top of fiber pool: #{error.message} (#{error.class})"
      ensure
        thread = Thread.current
        thread.keys.each { |key| thread[key] = nil }
      end

      def call_hooks(name)
        Array(@options[name]).each do |hook|
          block = hook.is_a?(Hash) ? hook[:block] : hook
          block.call(*(name == :before_thread_start && block.arity == 1 ? [@server] : []))
        end
      end
    end
  end
end
