# frozen_string_literal: true

require_relative "../server"
require_relative "banner"
require_relative "log_writer"
require_relative "config"
require_relative "descriptors"
require_relative "notify"
require_relative "pid_file"
require_relative "setup"
require_relative "signals"
require_relative "single"
require_relative "foreign_exceptions"

module NB
  class Server
    # Each is loaded before the server serves, or not at all: until its end, the files may be gone.
    autoload :InheritedListeners, File.join(__dir__, "inherited_listeners")
    autoload :Cluster, File.join(__dir__, "cluster")
    autoload :Control, File.join(__dir__, "control")

    # Runs a {Config}: the application in this process, or in a cluster of workers. It opens the
    # listeners and handles the signals.
    #
    # | signal | meaning |
    # |---|---|
    # | TERM, INT | drain: running requests have `drain_timeout`; a second signal ends at once (a \
    #   worker: QUIT) |
    # | QUIT | end at once |
    # | HUP | reopen log files; drain if the terminal is gone on which it reports |
    # | PWR | print every running request with its backtrace |
    # | USR1, USR2, TTIN, TTOU | see {Cluster} |
    class Launcher
      include Single

      # Seconds for a process to end at once by itself, before it is ended from outside its loop.
      AT_ONCE = 5
      # Seconds between two looks at a master that is being replaced by another program.
      SETTLES = 0.01
      private_constant :SETTLES

      # @param config [Config]
      # @param app [#call, nil] nil: the one in the config's rackup file
      # @param out [#write, #puts] receives the banner and errors; `rack.errors` of the application
      # @param kept_file [String, nil] the pidfile of the program that starts us, which removes it
      #   by at_exit; workers run that block, too
      def initialize(config, app: nil, out: $stderr, kept_file: nil)
        @config = config
        @kept_file = kept_file
        @app = app
        @errors = out
        @out = LogWriter.new(out)
        @notify = Notify.new
      end

      # Serves until a signal ends it.
      #
      # @return [void]
      # @scheduling always waits
      def run
        @pid = Process.pid
        @on_terminal = $stderr.tty?
        $stdout.sync = true # what the application logs there is read while it serves
        Signals.farewell { clean_up }
        Signals.keep(exits: @config.handover.workers.empty?)
        Descriptors.raise_limit
        return if @config.single? && run_single

        Cluster.new(@config, self, @out, @notify).run
      ensure
        @pid = nil
        @control&.stop
        clean_up
      end

      # Ends it as TERM does. Sinatra calls this, also when it has ended, and in workers.
      #
      # @return [void]
      # @thread any, and in a signal handler
      def stop
        Process.kill(:TERM, Process.pid) if @pid == Process.pid
      end

      # @return [#call] the application from the rackup file or the program
      # @raise [SetupError] if it cannot be called
      # @raise what the file raises, with a backtrace that ends in the file
      # @api private
      def load_app
        @loaded ||= with_page(Setup.callable(@app || read_app)).tap { Setup.refuse_shared_state }
      rescue ScriptError, StandardError => error
        shown = error.backtrace&.take_while { |frame| !frame.start_with?("#{__FILE__}:") }
        # With #backtrace_locations, error_highlight still finds the place.
        error.define_singleton_method(:backtrace) { shown } unless error.frozen?
        raise error
      end

      # @return [NB::Server] with the configured limits and open listeners
      # @api private
      def new_server
        @log_file = @config.access_log && open_log(@config.access_log)
        @server = Server.new(@app, bind: @config.bindings, log: @errors, access_log: @log_file,
                             **@config.server_options)
        @server.program = Thread.current == Thread.main
        Setup.step("cannot listen") { @server.listen }
        pid_file&.write # last: whoever does not get the listeners writes none
        @server
      rescue ArgumentError => error
        raise SetupError, error.message
      end

      # @return [NB::Server, InheritedListeners] with the listeners of the program before, for its
      #   workers
      # @api private
      def inherited_server = (@server ||= InheritedListeners.new(@config.inherited)).listen

      # What a serving process does from now on, including with signals that came before.
      #
      # @param master [Integer, nil] in a worker: the master's pid
      # @api private
      def receive_signals(server, master: nil)
        Signals.receive do |name|
          case name
          when "TERM", "INT" then begin_stop(server, master)
          when "QUIT" then stop_at_once(server)
          when "HUP" then hang_up(server, master)
          when "PWR" then aside { dump(server) }
          else @out.write(master ? "#{name} is for the master, #{master}\n" :
                                   "#{name} needs workers: start with -w 1 or more\n")
          end
        end
      end

      # Prints every request in flight to stderr.
      # @api private
      def dump(server)
        running = server.requests
        @out.write("#{Process.pid} no request runs\n") if running.empty?
        running.each do |request|
          lines = request[:backtrace].map { |line| "    #{line}\n" }
          @out.write("#{Process.pid} #{request[:method]} #{request[:path]} #{request[:age]} s " \
                     "#{request[:request_id]}\n#{lines.join}")
        end
        @out.write(BlockingCalls.report) if @config.blocking?
      end

      # Runs the block, in which the process serves.
      # @api private
      def serve(&block)
        Descriptors.make_room
        return @config.serve(&block) unless @config.blocking?

        BlockingCalls.start
        @config.serve(&block).tap { @out.write(BlockingCalls.report) }
      end

      # @param answers [Hash{Symbol=>#call}] for {Control#initialize}
      # @return [Control, nil] nil: none is configured
      # @api private
      def start_control(**answers)
        return unless @config.control

        @control = Control.new(@config.control, **answers)
        executed_anew = @config.handover.listeners.any?
        Setup.step("cannot make the control socket") { @control.start(own: executed_anew) }
      end

      # In the master: releases everything of a worker.
      # @api private
      def worker_ended(worker)
        worker.close
        File.write(@kept_file, Process.pid.to_s) if @kept_file && !File.exist?(@kept_file)
      rescue SystemCallError => error
        @out.write("cannot write the pidfile again: #{error.message}\n")
      end

      # Calls the blocks of a hook. What one of them raises is reported, and ends nothing: workers
      # that serve depend on this process.
      # @api private
      def call_hooks(name)
        @config.call_hooks(name) do |error|
          @out.write("the hook #{name} failed: #{error.full_message(highlight: false)}")
        end
      end

      # In the master: replaces this program by the one it was started as.
      #
      # @param told [Boolean] whether the hooks have been called
      # @raise [SystemCallError] if it cannot be executed
      # @api private
      def execute_again(*state, told:)
        @config.origin.restore(Handover::SETTINGS => JSON.generate(@config.kept)) do
          call_hooks(:on_restart) unless told
          Handover.execute(*state, @config.origin.folder)
        end
      end

      # After the log file was renamed.
      # @api private
      def reopen_log
        @log_file.reopen(@log_file.path, "a").sync = true if @log_file.is_a?(File)
      rescue SystemCallError => error
        @out.write("cannot reopen the access log: #{error.message}: its lines still go to the " \
                   "old file; send HUP again\n")
      end

      # The terminal sends HUP when its window is closed. A server that nobody sees any more would
      # keep its port.
      #
      # @return [Boolean] whether the terminal is gone on which this process reports
      # @api private
      def terminal_gone? = @on_terminal && !$stderr.tty?

      private

      def hang_up(server, master)
        return reopen_log if master || !terminal_gone?

        begin_stop(server, master) unless @stopping # the shell sends it, too
      end

      def with_page(app)
        path, options = @config.page_at
        path ? Page::Mount.new(app, path, Page.new(**options)) : app
      end

      def read_app
        load_rack
        ENV["RACK_ENV"] = @config.environment
        ::Rack::Builder.parse_file(rackup).then { |app,| app }
      end

      # Rack requires any other file by its name: by the path, it is found outside the load path.
      def rackup
        @config.rackup.end_with?(".ru") ? @config.rackup : File.expand_path(@config.rackup)
      end

      # The gem is the application's, in the version it needs.
      def load_rack
        require "rack"
        require "rack/builder"
      rescue LoadError => error
        raise unless error.path == "rack"

        raise SetupError, "cannot read #{@config.rackup}: the gem rack is missing: add it to " \
                          "the Gemfile and start by bundle exec, or run gem install rack"
      end

      # May be called in a signal handler, in which Ruby closes no IO that a thread waits for.
      def clean_up
        @server&.close
        @control&.remove_files
        pid_file&.remove
      end

      # A terminal sends INT to the workers, too, and then their master sends TERM: they drain once.
      def begin_stop(server, master)
        return (stop_at_once(server) if master.nil?) if @stopping

        @stopping = true
        master ? aside { leave(server, master) } : drain(server)
      end

      # On a thread, or if the system allows no more of them, here: in the signal's handler, which
      # holds up the loop.
      def aside(&block)
        Thread.new(&block)
      rescue ThreadError
        yield
      end

      # While another program replaces the master, nobody can take over from the last worker, and a
      # signal to end may end the master, too. Then the waiting clients depend on this worker.
      def leave(server, master)
        sleep SETTLES until Process.ppid != master || Signals.caught_by?(master, untold: true)
        server.inherit if Process.ppid != master
        drain(server)
      end

      def drain(server)
        server.stop
        limit = @config.drain_seconds and end_after(limit + AT_ONCE)
      end

      def stop_at_once(server)
        server.stop.stop
        end_after(AT_ONCE)
      end

      # A loop keeps running if code never yields, or if a fiber rescues every cancel.
      def end_after(seconds)
        Thread.new do
          sleep seconds
          @out.write("#{Process.pid} did not end within #{seconds} s of its signal: ending it\n")
          clean_up
          exit!(1)
        end
      rescue ThreadError
        nil # the system allows no more threads: only its loop can end it
      end

      def open_log(path)
        return $stdout if path == "-"

        # By its whole path, because the application may go to another folder (Dir.chdir).
        Setup.step("cannot write the access log") { File.open(File.expand_path(path), "a") }
          .tap { |file| file.sync = true }
      end

      def pid_file = @pid_file ||= @config.pidfile && PidFile.new(@config.pidfile)
    end
  end
end
