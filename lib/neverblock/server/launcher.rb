# frozen_string_literal: true

require_relative "../server"
require_relative "banner"
require_relative "cluster"
require_relative "config"
require_relative "control"
require_relative "notify"
require_relative "setup"
require_relative "signals"

module NB
  class Server
    # Runs a {Config}: the application in this process, or in a cluster of workers. Listeners are
    # opened here, signals are taken here.
    #
    # | signal | meaning |
    # |---|---|
    # | TERM, INT | end: requests that run get `drain_timeout`; a second one ends at once (in a \
    #   worker QUIT does) |
    # | QUIT | end at once |
    # | HUP | open log files again |
    # | PWR | print every request that runs, with its backtrace |
    # | USR1, USR2, TTIN, TTOU | {Cluster} |
    class Launcher
      # Seconds that a process has to end at once, before it is ended from outside of its loop.
      AT_ONCE = 5
      # Seconds between two looks at a master that is just replaced by another program.
      SETTLES = 0.01
      private_constant :SETTLES

      # @param config [Config]
      # @param app [#call, nil] nil: the rackup file of the config
      # @param out [#write] banner and errors
      # @param kept_file [String, nil] the pidfile of whoever starts us and removes it by at_exit;
      #   workers run that block, too
      def initialize(config, app: nil, out: $stderr, kept_file: nil)
        @config = config
        @kept_file = kept_file
        @app = app
        @out = out
        @notify = Notify.new
      end

      # Serves until a signal ends it.
      #
      # @return [void]
      # @scheduling always waits
      def run
        Signals.farewell { clean_up }
        Signals.keep(exits: @config.handover.workers.empty?)
        raise_fd_limit
        @config.worker_count.zero? ? run_single : Cluster.new(@config, self, @out, @notify).run
      ensure
        clean_up
      end

      # @return [#call] the application of the rackup file or the program
      # @raise what the file raises, with a backtrace that ends there
      # @api private
      def load_app
        @loaded ||= with_page(@app || read_app)
      rescue ScriptError, StandardError => error
        shown = error.backtrace&.take_while { |frame| !frame.start_with?("#{__FILE__}:") }
        # By #backtrace_locations error_highlight still finds the place.
        error.define_singleton_method(:backtrace) { shown } unless error.frozen?
        raise error
      end

      # @return [NB::Server] with the configuration's limits and open listeners
      # @api private
      def new_server
        @log_file = @config.access_log && open_log(@config.access_log)
        @server = Server.new(@app, bind: @config.bindings, log: @out, access_log: @log_file,
                             **@config.server_options)
        Setup.step("cannot listen") { @server.listen }
        write_pidfile if @config.pidfile # another server's stays where that one listens
        @server
      rescue ArgumentError => error
        raise SetupError, error.message
      end

      # What a process that serves does from now on, and with what came before.
      #
      # @param master [Integer, nil] its pid when this is a worker
      # @api private
      def receive_signals(server, master: nil)
        Signals.receive do |name|
          case name
          when "TERM", "INT" then stop(server, master)
          when "QUIT" then stop_at_once(server)
          when "HUP" then reopen_log
          when "PWR" then Thread.new { dump(server) }
          else @out.write(master ? "#{name} is for the master, #{master}\n" :
                                   "#{name} needs workers: start with -w 1 or more\n")
          end
        end
      end

      # Prints every request in flight to stderr.
      # @api private
      def dump(server)
        server.requests.each do |request|
          lines = request[:backtrace].map { |line| "    #{line}\n" }
          @out.write("#{Process.pid} #{request[:method]} #{request[:path]} #{request[:age]} s " \
                     "#{request[:request_id]}\n#{lines.join}")
        end
        @out.write(BlockingCalls.report) if @config.blocking?
      end

      # Runs the block, in which a process serves.
      # @api private
      def list_blocking
        return yield unless @config.blocking?

        BlockingCalls.start
        yield.tap { @out.write(BlockingCalls.report) }
      end

      # @param answers [Hash{Symbol=>#call}] what {Control#initialize} takes
      # @return [Control, nil] nil: the configuration names none
      # @api private
      def start_control(**answers)
        return unless @config.control

        control = Control.new(@config.control, **answers)
        executed_anew = @config.handover.listeners.any?
        Setup.step("cannot make the control socket") { control.start(own: executed_anew) }
      end

      # In the master: lets go of a worker.
      # @api private
      def worker_ended(worker)
        worker.close
        File.write(@kept_file, Process.pid.to_s) if @kept_file && !File.exist?(@kept_file)
      rescue SystemCallError => error
        @out.write("cannot write the pidfile again: #{error.message}\n")
      end

      # After the file was renamed away.
      # @api private
      def reopen_log
        @log_file.reopen(@log_file.path, "a").sync = true if @log_file.is_a?(File)
      end

      private

      def with_page(app)
        path, options = @config.page_at
        path ? Page::Mount.new(app, path, Page.new(**options)) : app
      end

      def read_app
        load_rack
        ENV["RACK_ENV"] = @config.environment
        ::Rack::Builder.parse_file(@config.rackup).then { |app,| app }
      end

      # It is the application's, in the version that it needs.
      def load_rack
        require "rack"
        require "rack/builder"
      rescue LoadError => error
        raise unless error.path == "rack"

        raise SetupError, "cannot read #{@config.rackup}: the gem rack is not there: add it to " \
                          "the Gemfile and start by bundle exec, or run gem install rack"
      end

      def run_single
        server = new_server
        server.app = load_app
        @control = start_control(**answers(server))
        @out.write(Banner.text(@config, server.addresses, server.options)) unless @config.quiet?
        receive_signals(server)
        @config.call_hooks(:on_worker_boot, 0)
        list_blocking { server.run { booted } }
        @notify.stopping
      end

      def booted
        @notify.ready
        feed_watchdog
        @config.handover.end_workers
        @config.call_hooks(:on_booted)
      end

      # Also from a signal's handler.
      def clean_up
        @server&.close
        @control&.stop
        File.unlink(@config.pidfile) if own_pidfile?
      end

      # A terminal sends INT to the workers as well, and their master TERM then: they drain once.
      def stop(server, master)
        return (stop_at_once(server) if master.nil?) if @stopping

        @stopping = true
        master ? Thread.new { leave(server, master) } : drain(server)
      end

      # While another program replaces the master nobody takes over from the last worker, and what
      # means the end may end the master too. Then those who wait are up to the worker.
      def leave(server, master)
        sleep SETTLES until Process.ppid != master || Signals.caught_by?(master)
        server.inherit if Process.ppid != master
        drain(server)
      end

      def drain(server)
        server.stop
        limit = @config.drain_seconds and end_after(server, limit + AT_ONCE)
      end

      def stop_at_once(server)
        server.stop.stop
        end_after(server, AT_ONCE)
      end

      # Code that does not give way, or a fiber that rescues every cancel, keeps a loop going.
      def end_after(server, seconds)
        Thread.new do
          sleep seconds
          @out.write("#{Process.pid} did not end within #{seconds} s of its signal: ending it\n")
          server.close
          exit!(1)
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

      def answers(server)
        {stats: lambda do
           {workers: [server.stats.merge(pid: Process.pid, ready: server.ready?)]}
         end,
         metrics: lambda do
           Metrics.samples(0 => server.metrics).merge(nb_ready: [[{}, server.ready? ? 1 : 0]])
         end,
         ready: -> { server.ready? }, requests: -> { server.requests },
         snapshot: ->(query) { server.snapshot(**Snapshot.detail(query)) }}
      end

      def open_log(path)
        return $stdout if path == "-"

        Setup.step("cannot write the access log") { File.open(path, "a") }
          .tap { |file| file.sync = true }
      end

      def own_pidfile?
        path = @config.pidfile
        path && File.file?(path) && File.read(path).to_i == Process.pid
      end

      def write_pidfile
        Setup.step("cannot write the pidfile") do
          File.write(@config.pidfile, "#{Process.pid}\n")
        end
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
