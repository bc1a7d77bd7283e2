# frozen_string_literal: true

require_relative "command"
require_relative "signals"
require_relative "tally"
require_relative "worker_process"

module NB
  class Server
    # What a master leaves to the program that it becomes by USR2, in the environment: the
    # listeners, its workers and the pipes on which they report, and what all of them have counted.
    #
    # @api private
    class Handover
      # The variable with the addresses of the listeners, a line each.
      LISTENERS = "NB_LISTEN"
      # The variable with `pid:index:fd:ready:fd` of each worker; the last is of its {Hotline}.
      WORKERS = "NB_OLD_WORKERS"
      # The variable with {Tally#to_json}.
      TALLY = "NB_TALLY"
      # Linux lets no variable have more than 131,072: without this one the counters begin anew.
      TALLY_BYTES = 100_000
      private_constant :TALLY_BYTES

      # @return [Array<String>] addresses of the listeners
      attr_reader :listeners

      # Takes it out of the environment: it is not for this program's children.
      #
      # @param environment [Hash{String=>String}]
      def initialize(environment)
        @tally = Tally.new(environment.delete(TALLY))
        @listeners = environment.delete(LISTENERS).to_s.split("\n")
        @workers = environment.delete(WORKERS).to_s.split(",").map { |worker| adopt(worker) }
        reap_others if @listeners.any?
      end

      # @return [Tally] of the master that this process was, or a new one
      attr_reader :tally
      # @return [Array<WorkerProcess>] of the master that this process was
      attr_reader :workers

      # For a program that has become one without workers.
      # @return [void]
      def end_workers
        @workers.each do |worker|
          Process.kill("TERM", worker.pid)
          Process.detach(worker.pid)
        rescue Errno::ESRCH
          nil # it has ended already
        end
      end

      # Replaces this program by the one that it was started as.
      #
      # @param server [NB::Server] whose listeners it gets
      # @param workers [Array<WorkerProcess>]
      # @param signals [Array<String>] what was received and not done yet
      # @param tally [Tally]
      # @raise [SystemCallError] when it cannot be executed
      def self.execute(server, workers, signals, tally) # rubocop:disable Metrics/ParameterLists
        listeners = server.listener_fds
        fds = listeners.values + workers.flat_map { |worker| worker.ios.map(&:fileno) }
        environment = {LISTENERS => listeners.keys.join("\n"),
                       WORKERS => workers.map(&:inheritance).join(","), **Signals.pass_on(signals)}
        counted = tally.to_json(workers)
        environment[TALLY] = counted if counted.bytesize <= TALLY_BYTES
        exec(environment, *Command.words, fds.to_h { |fd| [fd, fd] }.merge(close_others: true))
      end

      private

      # That master's application may have had children, for whom nobody here waits.
      def reap_others
        children = File.read("/proc/self/task/#{Process.pid}/children").split.map(&:to_i)
        (children - @workers.map(&:pid)).each { |pid| Process.detach(pid) }
      rescue SystemCallError
        nil # this kernel does not list them
      end

      def adopt(worker)
        pid, index, fd, ready, line = worker.split(":").map { |number| Integer(number) }
        pipe = IO.for_fd(fd).tap { |io| io.close_on_exec = true }
        line &&= Hotline.new(UNIXSocket.for_fd(line).tap { |io| io.close_on_exec = true })
        WorkerProcess.new(index, pid, pipe, line: line, ready: ready == 1,
                                            metrics: @tally.of_worker(pid))
      end
    end
  end
end
