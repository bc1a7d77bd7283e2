# frozen_string_literal: true

require_relative "command"
require_relative "signals"
require_relative "tally"

module NB
  class Server
    # For a program that has workers; others start without it, and without JSON.
    autoload :WorkerProcess, File.join(__dir__, "worker_process")
    autoload :WorkerChannel, File.join(__dir__, "worker_channel")

    # What a master passes, through the environment, to the program that replaces it at USR2: the
    # listeners, the workers with the pipes on which they report, and all counters.
    #
    # @api private
    class Handover
      # The variable with the addresses of the listeners, one per line.
      LISTENERS = "NB_LISTEN"
      # The variable with `pid:index:fd:ready:fd` for each worker; the last fd is of its
      # {WorkerChannel}.
      WORKERS = "NB_OLD_WORKERS"
      # The variable with the fd of a file without a name that has {Tally#to_json}. The environment
      # has no room for it: Linux limits a variable to 131,072 bytes.
      TALLY = "NB_TALLY_FD"
      # The variable with {Config#kept} as JSON.
      SETTINGS = "NB_SETTINGS"
      # What the next program loads first.
      GUARD = File.join(__dir__, "restart_guard.rb")
      private_constant :GUARD

      # @return [Array<String>] addresses of the listeners
      attr_reader :listeners

      # Removes the variables from the environment: they are not for this program's children.
      #
      # @param environment [Hash{String=>String}]
      def initialize(environment)
        @tally = Tally.new(counted(environment.delete(TALLY)))
        @settings = read(environment.delete(SETTINGS))
        @listeners = environment.delete(LISTENERS).to_s.split("\n")
        @workers = environment.delete(WORKERS).to_s.split(",").map { |worker| adopt(worker) }
        reap_others if @listeners.any?
      end

      # @return [Tally] from the master that this process was, or a new one
      attr_reader :tally
      # @return [Array<WorkerProcess>] of the master that this process was
      attr_reader :workers
      # @return [Hash{Symbol=>Object}] settings of that master
      attr_reader :settings

      # For a program that now runs without workers.
      # @return [void]
      def end_workers
        @workers.each do |worker|
          Process.kill("TERM", worker.pid)
          Process.detach(worker.pid)
        rescue Errno::ESRCH
          nil # it has ended already
        end
      end

      # Replaces this program by the one it was started as.
      #
      # @param server [NB::Server] whose listeners it gets
      # @param workers [Array<WorkerProcess>]
      # @param signals [Array<String>] received and not handled yet
      # @param tally [Tally]
      # @param folder [String, nil] to start it in
      # @raise [SystemCallError] if it cannot be executed
      # rubocop:disable Metrics/ParameterLists
      def self.execute(server, workers, signals, tally, folder)
        listeners = server.listener_fds
        counted = file(tally.to_json(workers))
        fds = [*listeners.values, *workers.flat_map(&:ios).map(&:fileno), *counted&.fileno]
        environment = {LISTENERS => listeners.keys.join("\n"),
                       WORKERS => workers.map(&:inheritance).join(","), **Signals.pass_on(signals)}
        environment[TALLY] = counted.fileno.to_s if counted
        environment.merge!(guarded(ENV.fetch("RUBYOPT", ""))) unless workers.empty?
        options = {close_others: true, chdir: folder}.compact
        exec(environment, *Command.words, fds.to_h { |fd| [fd, fd] }.merge(options))
      end
      # rubocop:enable Metrics/ParameterLists

      # A master has loaded Tempfile.
      #
      # @return [File, nil] nil: there is no room for it, or (an ArgumentError) no folder for
      #   temporary files, so the counters restart at 0
      def self.file(text)
        Tempfile.create("nb-tally") do |file|
          File.unlink(file.path)
          file.write(text)
          file.rewind
          file.dup
        end
      rescue SystemCallError, ArgumentError
        nil
      end

      # RubyGems loads what BUNDLER_SETUP names before anything in RUBYOPT. Bundler has put itself
      # there, too, and sets the variable again.
      #
      # @return [Hash{String=>String, nil}]
      def self.guarded(options)
        # RUBYOPT cannot quote a blank, and Ruby ends if a file is missing, as after `gem cleanup`.
        return {} if GUARD.match?(/\s/) || !File.file?(GUARD)

        variables = {"RUBYOPT" => "-r#{GUARD} #{options}"}
        options.include?("bundler/setup") ? {**variables, "BUNDLER_SETUP" => nil} : variables
      end
      private_class_method :file, :guarded

      private

      def read(settings)
        return {} unless settings

        require "json"
        JSON.parse(settings, symbolize_names: true)
      end

      # @return [String, nil] nil: the variable is missing, or names no file of ours
      def counted(fd)
        return unless fd

        file = IO.for_fd(Integer(fd), encoding: "UTF-8", autoclose: false)
        file.read.tap { file.close } if file.stat.file?
      rescue SystemCallError, ArgumentError
        nil
      end

      # The former master's application may have had children, for which nobody here waits.
      def reap_others
        children = File.read("/proc/self/task/#{Process.pid}/children").split.map(&:to_i)
        (children - @workers.map(&:pid)).each { |pid| Process.detach(pid) }
      rescue SystemCallError
        nil # this kernel does not list them
      end

      def adopt(worker)
        pid, index, fd, ready, channel = worker.split(":").map { |number| Integer(number) }
        pipe = IO.for_fd(fd).tap { |io| io.close_on_exec = true }
        WorkerProcess.new(index, pid, pipe, channel: channel && channel_on(channel),
                                            ready: ready == 1, metrics: @tally.of_worker(pid))
      end

      def channel_on(fd)
        WorkerChannel.new(UNIXSocket.for_fd(fd).tap { |io| io.close_on_exec = true })
      end
    end
  end
end
