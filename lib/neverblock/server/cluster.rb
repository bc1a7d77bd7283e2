# frozen_string_literal: true

require "json"
require "tempfile" # for the Handover, while its file is there
require_relative "config"
require_relative "handover"
require_relative "failed_restart"
require_relative "overview"
require_relative "signals"
require_relative "supervision"
require_relative "worker_process"

module NB
  class Server
    # A master that keeps N worker processes on shared listeners. It runs no loop and serves no
    # request: it waits for signals and heartbeats.
    #
    # * A worker that dies is replaced. One whose loop has not turned for `worker_timeout` is
    # killed. * TERM, INT: the workers drain. QUIT: they end at once. HUP and PWR are passed on. *
    # USR1: the workers are replaced one by one; each new one starts first. * USR2: the master
    # executes itself again with the listeners open. Its old workers serve until the new ones do,
    # then drain. * TTIN, TTOU: one worker more, one worker fewer.
    #
    # @api private
    class Cluster
      include FailedRestart
      include Supervision

      # Seconds that a worker has after drain_timeout before it is killed.
      PATIENCE = 10
      # Seconds before the next attempt when a worker died at once or could not be started.
      BACK_OFF = 1
      private_constant :PATIENCE, :BACK_OFF

      def initialize(config, launcher, out, notify) # rubocop:disable Metrics/ParameterLists
        @config = config
        @launcher = launcher
        @out = out
        @notify = notify
        @size = config.fault ? config.handover.workers.size : config.worker_count
        # pid => WorkerProcess. Always replaced as a whole, because the control socket's thread
        # reads it.
        @workers = {}
        @old_workers = config.handover.workers.to_h { |worker| [worker.pid, worker] }
        @served = @old_workers.any? # whether this master's listeners were ever served
        @replacing, @signals = [], [] # old workers still to be replaced; signals received
        @tally = config.handover.tally
        @turned = now
      end

      # Runs until every worker has ended.
      # @return [Integer] exit status
      def run
        @wake, @waker = IO.pipe
        receive_signals
        hold(@config.fault) if @config.fault
        @server = (prepare { @launcher.new_server } unless @held) || @launcher.inherited_server
        @control = prepare { start_control }
        load_app if @config.preload? && !@held
        receive_signals # the application may have installed handlers
        @out.write(Banner.text(@config, @server.addresses, @server.options)) unless
          @config.quiet? || @held
        turn until over?
      ensure
        @server&.close
        @control&.stop
      end

      private

      # Clients that the kernel let in while every worker was leaving need an answer: starts one
      # more worker, which answers them and ends.
      def over?
        return false unless all_workers.empty? && (@stopping || @held)

        abandoned unless @stopping
        return true if @rest || !@served || !@server.waited_for?

        @rest = true
        start_worker
        all_workers.each_value { |worker| dismiss(worker) }
        false
      end

      # A signal to end does not wait until the application is loaded.
      def receive_signals
        Signals.receive(also: ["CHLD"]) do |name|
          @signals << name
          @waker.write_nonblock(".", exception: false)
          break_off if @loading && Signals::ENDING.include?(name)
        end
      end

      # Does not wait for the loading to finish, and raises nothing: RubyGems breaks if an exception
      # strikes in a require. If old workers serve, the program starts again without loading.
      def break_off = @old_workers.empty? ? Signals.leave : execute_again(told: true)

      def start_control
        @launcher.start_control(
          stats: -> { overview.stats }, ready: -> { ready? }, metrics: -> { metrics },
          snapshot: ->(query) { overview.snapshot(query) }
        )
      end

      def ending? = @signals.intersect?(Signals::ENDING)
      def all_workers = @old_workers.merge(@workers)

      def overview
        Overview.new(@workers.values, @old_workers.values, size: @size, draining: @stopping == true)
      end

      def metrics = @tally.samples(wanted: @size, ready: ready?) { all_workers.values }
      def ready? = overview.ready?

      def turn
        handle(@signals.shift) until @signals.empty?
        spawn_missing
        watched = [@wake, *all_workers.each_value.flat_map(&:ios)]
        heard, = IO.select(watched, nil, nil, [TURN, *@notify.interval].min)
        excuse
        heard&.each { |io| read(io) }
        reap
        look_after
        @notify.watchdog
      end

      def read(io)
        return io.read_nonblock(100, exception: false) if io == @wake

        all_workers.each_value.find { |worker| worker.ios.include?(io) }
                   &.hear(io) { |query| JSON.generate(overview.snapshot(query)) }
      end

      def spawn_missing
        wanted = @replacing.empty? ? @size : @size + 1
        start_worker until @stopping || @held || @workers.size >= wanted || backing_off?
      end

      # A worker that dies at once must not cause a storm of forks.
      def back_off = @backoff_until = now + BACK_OFF
      def backing_off? = @backoff_until && now < @backoff_until

      def start_worker
        @launcher.call_hooks(:before_fork)
        staying = @workers.each_value.reject { |worker| replaced?(worker) }
        index = (0..).find { |i| staying.none? { |worker| worker.index == i } }
        master = Process.pid
        worker = WorkerProcess.start(index) { |*ends| work(index, *ends, master) }
        @workers = @workers.merge(worker.pid => worker)
      rescue SystemCallError => error
        @out.write("could not start a worker, trying again in #{BACK_OFF} s: #{error.message}\n")
        back_off
      end

      def replaced?(worker) = @replacing.include?(worker.pid)

      # In the child.
      def work(index, pipe, channel, master) # rubocop:disable Metrics/ParameterLists
        trap("CHLD", "DEFAULT")
        Signals.born { @server.waited_for? }
        [@wake, @waker, *all_workers.each_value.flat_map(&:ios)].each(&:close)
        @control&.forget
        @config.call_hooks(:on_worker_boot, index)
        @server.app = @launcher.load_app
        @launcher.receive_signals(@server, master: master)
        @launcher.serve { WorkerProcess.serve(@server, pipe, channel, master) }
        @config.call_hooks(:on_worker_shutdown, index)
      end

      def handle(signal)
        case signal
        when "TERM", "INT" then stop(@stopping ? "QUIT" : "TERM")
        when "QUIT" then stop("QUIT")
        when "HUP" then hang_up
        when "PWR" then signal_all(signal)
        when "USR1" then @replacing |= @workers.keys
        when "USR2" then execute_again unless @stopping
        when "TTIN" then grow
        when "TTOU" then shrink
        end
      end

      def hang_up
        return signal_all("HUP") unless @launcher.terminal_gone?

        stop("TERM") unless @stopping
      end

      def stop(signal)
        @stopping = true
        @notify.stopping
        # otherwise the kernel would go on accepting clients that no worker serves
        signal == "QUIT" ? @server.close : @server.refuse
        @served = false if signal == "QUIT"
        all_workers.each_value { |worker| dismiss(worker, signal) }
      end

      # The worker has its time to end, and is killed after that.
      def dismiss(worker, signal = "TERM")
        limit = signal == "QUIT" ? 0 : @config.drain_seconds
        worker.leave(limit && (limit + PATIENCE))
        worker.signal(signal)
      end

      # The log is ours, too: future workers inherit it.
      def signal_all(signal)
        @launcher.reopen_log if signal == "HUP"
        all_workers.each_value { |worker| worker.signal(signal) }
      end

      def grow = @size < Config::WORKERS_MOST ? @size += 1 : @out.write("TTIN: #{@size} at most\n")

      def shrink
        return if @size <= 1

        @size -= 1
        one_more = @workers.each_value.reject(&:leaving).drop(@size).last and dismiss(one_more)
      end

      # @param told [Boolean] whether the hooks have been called
      def execute_again(told: false)
        @notify.reloading
        @launcher.execute_again(@server, all_workers.values, @signals, @tally, told: told)
      rescue SystemCallError => error
        receive_signals
        @notify.ready if @announced || @held # the reloading is over
        @out.write("re-execution failed: #{error.message}, so the workers continue. Fix it and " \
                   "send USR2 again.\n")
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def announce
        return if @announced || @held || @stopping
        return if @workers.size < @size || !@workers.each_value.all?(&:ready?)

        @announced = @served = true
        @old_workers.each_value { |worker| dismiss(worker) }
        @notify.ready
        @launcher.call_hooks(:on_booted)
      end
    end
  end
end
