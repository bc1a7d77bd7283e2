# frozen_string_literal: true

require_relative "../server"
require_relative "banner"
require_relative "cluster"
require_relative "config"
require_relative "control"
require_relative "notify"

module NB
  class Server
    # Runs a {Config}: the application in this process, or in a cluster of workers. Listeners are
    # opened here, signals are taken here.
    #
    # | signal | meaning |
    # |---|---|
    # | TERM, INT | end: requests that run get `drain_timeout`; a second one ends at once |
    # | QUIT | end at once |
    # | HUP | open log files again |
    # | PWR | print every request that runs, with its backtrace |
    # | USR1, USR2, TTIN, TTOU | {Cluster} |
    class Launcher
      # @param config [Config]
      # @param app [#call, nil] nil: the rackup file of the config
      # @param out [#write] banner and errors
      # @param arguments [Array<String>] the command line after `nb serve`, to execute it again
      def initialize(config, app: nil, out: $stderr, arguments: [])
        @config = config
        @app = app
        @out = out
        @arguments = arguments
        @notify = Notify.new
      end

      # Serves until a signal ends it.
      #
      # @return [void]
      # @scheduling always waits
      def run
        raise_fd_limit
        File.write(@config.pidfile, "#{Process.pid}\n") if @config.pidfile
        @config.worker_count.zero? ? run_single : Cluster.new(@config, self, @out, @notify).run
      ensure
        File.unlink(@config.pidfile) if @config.pidfile && File.exist?(@config.pidfile)
      end

      # @api private
      attr_reader :arguments

      # @return [#call] the application of the rackup file or the program
      # @api private
      def load_app
        @app ||= begin
          require "rack"
          require "rack/builder"
          ENV["RACK_ENV"] ||= @config.environment
          app, = ::Rack::Builder.parse_file(@config.rackup)
          app
        end
      end

      # @return [NB::Server] with the configuration's limits and listeners
      # @api private
      def new_server
        @log_file = @config.access_log && open_log(@config.access_log)
        Server.new(@app, bind: @config.bindings, log: @out, access_log: @log_file,
                   **@config.server_options)
      end

      # The handlers of a process that serves.
      # @api private
      def trap_signals(server)
        %w[TERM INT].each { |name| trap(name) { server.stop } }
        trap("QUIT") { server.stop.stop }
        trap("HUP") { reopen_log }
        trap("PWR") { Thread.new { dump(server) } }
      end

      # Prints every request in flight to stderr.
      # @api private
      def dump(server)
        server.requests.each do |request|
          lines = request[:backtrace].map { |line| "    #{line}\n" }
          @out.write("#{Process.pid} #{request[:method]} #{request[:path]} #{request[:age]} s " \
                     "#{request[:request_id]}\n#{lines.join}")
        end
      end

      # After the file was renamed away.
      # @api private
      def reopen_log
        @log_file.reopen(@log_file.path, "a").sync = true if @log_file.is_a?(File)
      end

      private

      def run_single
        server = new_server.listen
        server.app = load_app
        control = start_control(server)
        @out.write(Banner.text(@config, server.addresses, server.options)) unless @config.quiet?
        trap_signals(server)
        trap_masters_signals
        @config.call_hooks(:on_worker_boot, 0)
        server.run do
          @notify.ready
          feed_watchdog
          @config.call_hooks(:on_booted)
        end
        @notify.stopping
      ensure
        control&.stop
      end

      # Their defaults would end or stop the process.
      def trap_masters_signals
        %w[USR1 USR2 TTIN TTOU].each do |name|
          trap(name) { @out.write("#{name} needs workers: start with -w 1 or more\n") }
        end
      end

      # From inside the loop: when it hangs, systemd hears nothing.
      def feed_watchdog
        return unless @notify.interval

        Fiber.schedule do
          loop do
            @notify.watchdog
            Fiber.scheduler.idle { sleep @notify.interval }
          end
        end
      end

      def start_control(server)
        return unless @config.control

        stats = lambda do
          {workers: [server.stats.merge(pid: Process.pid, ready: server.ready?)]}
        end
        Control.new(@config.control, stats: stats, ready: -> { server.ready? },
                                     requests: -> { server.requests }).start
      end

      def open_log(path)
        return $stdout if path == "-"

        File.open(path, "a").tap { |file| file.sync = true }
      end

      # The soft limit is often 1024 where the hard one is a million.
      def raise_fd_limit
        soft, hard = Process.getrlimit(:NOFILE)
        Process.setrlimit(:NOFILE, [hard, 1_048_576].min, hard) if soft < hard
      rescue SystemCallError
        nil # the banner says what is too low
      end
    end
  end
end
