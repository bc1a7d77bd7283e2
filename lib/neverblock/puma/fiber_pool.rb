# frozen_string_literal: true

require_relative "../loop/scheduler"
require_relative "../loop/runner"
require_relative "../server/config"
require_relative "../server/setup"
require_relative "../fiber_state"
require_relative "between_requests"
require_relative "hooks"
require_relative "no_threads"

module NB
  # NeverBlock's replacements for parts of Puma; see lib/puma/plugin/neverblock.rb.
  module Puma
    # Makes Puma's server create our pool instead of its own. Puma names the constant without a
    # scope: ours, inside the class, is found first.
    #
    # @return [void]
    # @raise [RuntimeError] for a Puma that is too old
    # @api private
    def self.take_over
      version = ::Puma::Const::PUMA_VERSION
      raise "plugin :neverblock needs Puma 6 or later, and this is #{version}: raise `gem " \
            "\"puma\"` in the Gemfile, or delete the line" if version.to_i < 6

      ::Puma::Server.const_set(:ThreadPool, FiberPool) unless
        ::Puma::Server.const_defined?(:ThreadPool, false)
    end

    # Ends the process for a Rails application whose requests would share their state: with one
    # sentence, where an exception would get Puma's backtrace.
    #
    # @return [void]
    # @api private
    def self.refuse_shared_state
      Server::Setup.refuse_shared_state
    rescue Server::SetupError => error
      abort "neverblock: #{error.message}"
    end

    # Ends the process, as {refuse_shared_state} does, for a variable of the environment that is
    # not valid. In a cluster, each worker would end instead, and its successor.
    #
    # @return [Integer] in how many fibers a worker runs requests
    # @api private
    def self.fibers
      Scheduler.check(nil)
      Server::Config.puma_fibers
    rescue ArgumentError => error
      abort "neverblock: #{error.message}"
    end

    # Replaces Puma::ThreadPool: one thread with a loop, and in it up to `size` fibers that run
    # requests. Puma's own reactor, parser, cluster and signals stay as they are.
    #
    # Puma makes one in every worker, after the fork. It has the methods that Puma's server calls.
    #
    # @api private
    class FiberPool
      include NoThreads, BetweenRequests

      # Puma's server rescues this when a stop has taken too long.
      ForceShutdown = ::Puma::ThreadPool::ForceShutdown
      # Seconds that requests have to end after they were cancelled at a shutdown, and that other
      # fibers (NB.async, a job) have after the last request.
      GRACE_SECONDS = 5

      # Puma 6 calls it with `clean_thread_locals`, between the requests of one connection.
      # @return [void]
      def self.clean_thread_locals = FiberState.clear

      # @return [Integer] fibers made, idle fibers, and other counts of Puma's thread pool
      attr_reader :spawned, :waiting, :trim_requested
      # @return [Boolean] whether hooks run that wait for a moment without requests
      attr_reader :out_of_band_running
      # @return [Integer] as in Puma's thread pool: minimum and maximum at a time
      attr_accessor :min, :max

      # @raise [SystemExit] see {NB::Puma.refuse_shared_state}
      def initialize(name, options = {}, server: nil, &block)
        Puma.refuse_shared_state
        @name = name
        @hooks = Hooks.new(options, server)
        @server = server
        @block = block.arity == 1 ? ->(_processor, client) { block.call(client) } : block
        @size = Server::Config.puma_fibers
        @min = @max = @size
        @spawned = @waiting = @trim_requested = @backlog_max = 0
        @out_of_band_pending = @out_of_band_running = @forced = @requests_ended = @ending = false
        @mutex = Mutex.new
        @changed = ConditionVariable.new # others wait for it under the mutex
        @clients = Thread::Queue.new
        @ended = Thread::Queue.new # closed when no request runs or will run
        @force = Thread::Queue.new # closed when requests must end at once
        @forcible = {}.compare_by_identity # fiber => exception sent to it; only the loop uses it
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
      # @return [Integer] the longest backlog since {#stats} or {#reset_max}
      def backlog_max = @backlog_max
      # @return [Integer] 0
      def reset_max = @backlog_max = 0
      # @return [Integer] requests that could begin at once
      def pool_capacity = [@waiting + @size - @spawned, 0].max
      # @return [Integer] requests that run or wait, under Puma's name
      def busy_threads = @spawned - @waiting + @clients.size

      # @return [Hash{Symbol => Integer}] as Puma::ThreadPool#stats
      def stats
        longest = @backlog_max
        reset_max
        {backlog: backlog, running: @spawned, pool_capacity: pool_capacity,
         busy_threads: busy_threads, io_threads: 0, backlog_max: longest}
      end

      # Runs the block under the pool's lock; nests.
      # @return the block's value
      def with_mutex(&block) = @mutex.owned? ? yield : @mutex.synchronize(&block)

      # Called before Puma accepts: no request comes while the hooks of `out_of_band` run.
      # @return [void]
      def wait_while_out_of_band_running
        return unless @out_of_band_running

        with_mutex { @changed.wait(@mutex) while @out_of_band_running }
      end

      # Puma 6 calls this before it accepts.
      def wait_until_not_full
        sleep 0.001 while busy_threads >= @size && !@clients.closed?
      end

      # Puma 6, in a cluster: lets an idle worker accept first.
      def wait_for_less_busy_worker(delay_seconds)
        sleep delay_seconds if delay_seconds&.positive? && busy_threads.positive?
      end

      # Wraps the application: the part that a forced stop may interrupt. Puma runs several requests
      # of one connection in a row, if the next one is there already: each begins anew.
      def with_force_shutdown
        raise ForceShutdown if @forced

        begin_anew
        fiber = Fiber.current
        @forcible[fiber] = nil
        yield
      ensure
        sent = @forcible.delete(fiber)
        let_arrive if sent && !sent.backtrace
      end

      # @param timeout [Numeric] seconds that requests have; -1, the default in Puma 6: no limit
      def shutdown(timeout = -1)
        @clients.close
        unless ended_within?(timeout == -1 ? nil : timeout)
          @force.close
          ended_within?(GRACE_SECONDS) || @thread.kill
        end
        @thread.join(2 * GRACE_SECONDS) || @thread.kill
      ensure
        let_main_leave_its_write
      end

      private

      # Whether all requests ended in time.
      def ended_within?(seconds)
        deadline = seconds && (now + seconds)
        @mutex.synchronize do
          until @requests_ended || !@thread.alive?
            left = deadline && (deadline - now)
            return false if left && left <= 0

            @changed.wait(@mutex, left)
          end
        end
        true
      end

      # Puma's server thread closes its pipe after this, while the main thread may still be inside
      # the write to that pipe by which TERM stopped the server. In Ruby 3.4, IO#close tells that
      # thread by an IOError and waits for it. If the IOError is raised in the very lock that the
      # writer needs to say it has left, the closer waits forever.
      def let_main_leave_its_write
        return unless RUBY_VERSION.start_with?("3.4")

        sleep 0.005 while Thread.main.backtrace&.first.to_s.match?(/[#'](<<|write)'\z/)
      end

      # Without this thread nobody answers. If it fails, so does the process, and a cluster's master
      # starts another.
      def run
        Thread.current.abort_on_exception = true
        ::Puma.set_thread_name("#{@name} fibers")
        Thread.current.puma_server = @server if Thread.current.respond_to?(:puma_server=)
        @hooks.call(:before_thread_start)
        Runner.run(backend: nil, repairs: true) { serve }
      ensure
        requests_ended
        @hooks.call(:before_thread_exit)
      end

      def serve
        @scheduler = Fiber.scheduler
        Fiber.schedule { force_when_told }
        Fiber.schedule { begin_work }
        outlast_others do
          @ended.pop
          limit_others
        end
      ensure
        @ending = true
      end

      # If another fiber is ended by something that is not an error (such as a signal's exception in
      # NB.async), the wait here raises it. As with threads, `exit` ends the process, and anything
      # else ends only that fiber.
      def outlast_others
        yield
      rescue SystemExit
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- see above
        $stderr.write("A fiber ended with an exception:\n#{error.full_message}")
        retry
      end

      # Called while the block of the loop waits, so that what leaves a request finds the block
      # there.
      def begin_work
        @scheduler.yield
        spawn_fiber
      end

      # On the loop's own thread: requests come and go while others look.
      def force_when_told
        @scheduler.idle { @force.pop }
        @forced = true
        @forcible.each_key.to_a.each do |fiber|
          @forcible[fiber] = error = ForceShutdown.new("the server stops")
          @scheduler.fiber_interrupt(fiber, error)
        end
      end

      # A fiber that computed, or was about to run, gets the exception at its next wait: here, and
      # not in the middle of its answer or in the next request.
      def let_arrive
        @scheduler.yield
      rescue ForceShutdown
        nil
      end

      # The loop runs until they end.
      def limit_others
        Fiber.schedule do
          @scheduler.idle { sleep GRACE_SECONDS }
          @scheduler.__send__(:end_fibers, "the server has stopped")
        end
      end

      def requests_ended
        @ended.close
        @mutex.synchronize do
          @requests_ended = true
          @changed.broadcast
        end
      end

      # One fiber always waits for work, until there are `size` of them, or as many as the system
      # has room for.
      def spawn_fiber
        @spawned += 1
        Fiber.schedule { work }
      rescue FiberError => error
        @spawned -= 1
        raise if @spawned.zero?

        @size = @spawned
        $stderr.write("neverblock: there are #{@size} fibers for requests and the system has no " \
                      "room for more (#{error.message}): lower NEVERBLOCK_FIBERS, or raise " \
                      "vm.max_map_count by sysctl\n")
      end

      def spawn_spare
        spawn_fiber if @waiting.zero? && @spawned < @size && !@ending && !@clients.closed?
      end

      def work
        processor = Processor.new
        FiberState.clear
        while (client = take)
          spawn_spare
          process(processor, client)
        end
      ensure
        @spawned -= 1
        spawn_spare # an exception came out of the wait
        requests_ended if @spawned.zero? && @clients.closed?
      end

      def take
        @waiting += 1
        run_out_of_band if @out_of_band_pending && @spawned == @waiting && @clients.empty?
        @clients.pop
      ensure
        @waiting -= 1
      end

      def process(processor, client)
        @out_of_band_pending = true if @block.call(processor, client) && @hooks.any?(:out_of_band)
      rescue Exception => error # rubocop:disable Lint/RescueException -- as Puma, also of `exit`
        raise if @ending

        $stderr.write("Error reached top of fiber pool: #{error.message} (#{error.class})\n")
      ensure
        begin_anew
      end

      # No fiber runs meanwhile, as in Puma no thread takes a request.
      def run_out_of_band
        @out_of_band_pending = false
        @out_of_band_running = true
        NB.blocking { @hooks.call_out_of_band }
      ensure
        @mutex.synchronize do
          @out_of_band_running = false
          @changed.broadcast
        end
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
