# frozen_string_literal: true

require "json"
require_relative "worker_process"

module NB
  class Server
    # A master that keeps N worker processes on the same listeners. It runs no loop and no request:
    # it waits for signals and heartbeats.
    #
    # * a worker that dies is replaced; one whose loop has not turned for `worker_timeout` is killed
    # * TERM, INT: workers drain; QUIT: they end at once; HUP and PWR are passed on
    # * USR1: workers are replaced one by one, the new one first
    # * USR2: the master executes itself again with the listeners open; its old workers drain as
    #   soon as the new ones serve
    # * TTIN, TTOU: one worker more, one less
    #
    # @api private
    class Cluster
      # What the master answers to.
      SIGNALS = %w[TERM INT QUIT HUP PWR USR1 USR2 TTIN TTOU CHLD].freeze

      def initialize(config, launcher, out, notify) # rubocop:disable Metrics/ParameterLists
        @config = config
        @launcher = launcher
        @out = out
        @notify = notify
        @size = config.worker_count
        @workers = {} # pid => WorkerProcess
        @replacing = [] # old workers whose successors are to come
        @old_workers = config.old_workers
        @signals = []
      end

      # Runs until every worker has ended.
      # @return [Integer] exit status
      def run
        @wake, @waker = IO.pipe
        @server = @launcher.new_server.listen
        @launcher.load_app if @config.preload?
        @control = start_control
        trap_signals
        @out.write(Banner.text(@config, @server.addresses, @server.options)) unless @config.quiet?
        turn until @stopping && @workers.empty?
      ensure
        @server&.close
        @control&.stop
      end

      private

      def start_control
        return unless @config.control

        Control.new(@config.control, stats: -> { stats }, ready: -> { ready? }).start
      end

      def stats
        {size: @size, draining: @stopping == true, workers: @workers.values.map(&:to_h)}
      end

      def ready? = !@stopping && @workers.each_value.any?(&:ready?)

      # Hands every signal of {SIGNALS} to the master's loop.
      # @return [void]
      def trap_signals
        SIGNALS.each do |name|
          trap(name) do
            @signals << name
            @waker.write_nonblock(".", exception: false)
          end
        end
      end

      def turn
        spawn_missing
        watched = [@wake, *@workers.each_value.map(&:pipe)]
        IO.select(watched, nil, nil, [1, *@notify.interval].min)&.first&.each { |io| read(io) }
        handle(@signals.shift) until @signals.empty?
        reap
        look_after
        @notify.watchdog
      end

      def read(io)
        return io.read_nonblock(100, exception: false) if io == @wake

        @workers.each_value.find { |worker| worker.pipe == io }&.read
      end

      def spawn_missing
        return if @stopping

        wanted = @replacing.empty? ? @size : @size + 1
        start_worker while @workers.size < wanted && !backing_off?
      end

      # A worker that dies at once shall not make a storm of forks.
      def backing_off?
        @backoff_until && Process.clock_gettime(Process::CLOCK_MONOTONIC) < @backoff_until
      end

      def start_worker
        @config.call_hooks(:before_fork)
        index = (0..).find { |i| @workers.each_value.none? { |worker|
 worker.index == i && !replaced?(worker) } }
        worker = WorkerProcess.start(index) { |pipe| work(index, pipe) }
        @workers[worker.pid] = worker
      end

      def replaced?(worker) = @replacing.include?(worker.pid)

      # In the child.
      def work(index, pipe)
        SIGNALS.each { |name| trap(name, "DEFAULT") }
        [@wake, @waker, *@workers.each_value.map(&:pipe)].each(&:close)
        @control&.forget
        @launcher.trap_signals(@server)
        @config.call_hooks(:on_worker_boot, index)
        @server.app = @launcher.load_app
        WorkerProcess.serve(@server, pipe)
        @config.call_hooks(:on_worker_shutdown, index)
      end

      def handle(signal)
        case signal
        when "TERM", "INT" then stop(@stopping ? "QUIT" : "TERM")
        when "QUIT" then stop("QUIT")
        when "HUP" then reopen_log
        when "PWR" then signal_all(signal)
        when "USR1" then @replacing |= @workers.keys
        when "USR2" then execute_again
        when "TTIN" then @size += 1
        when "TTOU" then shrink
        end
      end

      def stop(signal)
        @stopping = true
        @notify.stopping
        @server.close # or the kernel would go on letting in whom no worker serves any more
        signal_all(signal)
      end

      # Ours too: workers to come get it from us.
      def reopen_log
        @launcher.reopen_log
        signal_all("HUP")
      end

      def signal_all(signal) = (@workers.keys | @old_workers).each { |pid| kill(signal, pid) }

      def shrink
        return if @size <= 1

        @size -= 1
        @workers.values.last.leaving = true
        kill("TERM", @workers.keys.last)
      end

      def kill(signal, pid)
        Process.kill(signal, pid)
      rescue Errno::ESRCH
        nil # it has ended already
      end

      def execute_again
        listeners = @server.listener_fds
        environment = {"NB_LISTEN" => listeners.keys.join("\n"),
                       "NB_OLD_WORKERS" => @workers.keys.join(",")}
        @notify.reloading
        @config.call_hooks(:on_restart)
        keep = listeners.each_value.to_h { |fd| [fd, fd] }
        library = File.expand_path("../..", __dir__)
        exec(environment, RbConfig.ruby, "-I#{library}", $PROGRAM_NAME, "serve",
             *@launcher.arguments,
             keep.merge(close_others: true))
      rescue SystemCallError => error
        @out.write("re-execution failed: #{error.message}\n")
      end

      def reap
        while (pid, status = Process.wait2(-1, Process::WNOHANG))
          worker = @workers.delete(pid)
          @replacing.delete(pid)
          @old_workers.delete(pid)
          ended(worker, status) if worker
        end
      rescue Errno::ECHILD
        nil # none left
      end

      def ended(worker, status)
        worker.close
        return if @stopping || status.success?

        @out.write("worker #{worker.index} (#{worker.pid}) died: #{status}\n")
        @backoff_until = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1 if worker.age < 1
      end

      def look_after
        @workers.each_value do |worker|
          next kill_stuck(worker) if worker.silent_for > @config.worker_timeout

          @replacing |= [worker.pid] if used_up?(worker)
        end
        retire
        announce
      end

      def kill_stuck(worker)
        @out.write("worker #{worker.index} (#{worker.pid}): its loop has not turned for " \
                   "#{worker.silent_for.round} s, killing it\n")
        kill("KILL", worker.pid)
      end

      def used_up?(worker)
        (@config.max_requests && worker.requests >= @config.max_requests) ||
          (@config.max_memory_mb && worker.memory_mb >= @config.max_memory_mb)
      end

      # One at a time: an old worker ends when its successor serves.
      def retire
        return if @replacing.empty? || @stopping

        return if @workers.size <= @size || @workers.each_value.any? { |worker|
 worker.leaving || !worker.ready? }

        pid = @replacing.first
        @workers[pid].leaving = true
        kill("TERM", pid)
      end

      def announce
        return if @announced || @workers.size < @size || !@workers.each_value.all?(&:ready?)

        @announced = true
        @old_workers.each { |pid| kill("TERM", pid) }
        @notify.ready
        @config.call_hooks(:on_booted)
      end
    end
  end
end
