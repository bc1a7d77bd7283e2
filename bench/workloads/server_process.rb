# frozen_string_literal: true

require "etc"
require "rbconfig"
require "socket"
require "tempfile"
require_relative "../frame/listening"
require_relative "session_processes"

module Bench
  module Workloads
    # A web server in a session of its own, held to one core, and what the kernel says of it.
    class ServerProcess
      include SessionProcesses

      # Seconds to wait for its first answer.
      PATIENCE = 15
      APPLICATIONS = File.expand_path("../served", __dir__)
      private_constant :APPLICATIONS

      # @return [Integer]
      attr_reader :port
      # @return [Float] seconds from the start to the first answer
      attr_reader :started_in

      # Held to cores where the machine has them, see {SessionProcesses::APART}.
      #
      # @param cores [Array<Integer>] where processes may run
      # @param command [Array<String>]
      # @return [Array<String>] the command
      def self.pin(cores, command)
        return APART + command if cores.max.to_i >= Etc.nprocessors

        [*APART, "taskset", "-c", cores.join(","), *command]
      end

      # @param runtime [Runtime] one with a serve block
      # @param application [String] file in bench/served/
      # @param cores [Array<Integer>]
      # @param environment [Hash]
      def initialize(runtime, application: "app.ru", cores: [0], environment: {})
        @port = Listening.free_port
        command = runtime.command(@port, File.join(APPLICATIONS, application))
        input, @input = IO.pipe # the C server ends with its standard input
        @log = Tempfile.new("bench-served")
        began = now
        @pid = Process.spawn(environment, *ServerProcess.pin(cores, found(command)), in: input,
                             out: @log.path, err: @log.path, chdir: Dir.tmpdir)
        input.close
        wait_until_it_answers
        @started_in = now - began
      end

      # @return [String] why Ruby crashed, or the end of what it printed
      def log
        lines = File.read(@log.path).scrub.lines
        (lines.grep(/\[BUG\]/).first || lines.last(3).join(" ")).strip
      end

      # @return [void]
      def stop
        @input.close
        end_session
      end

      private

      # A gem's program runs under the Ruby that runs this.
      def found(command)
        program, *rest = command
        return command if program.include?("/")

        gem = File.join(ENV.fetch("GEM_HOME", ""), "bin", program)
        File.exist?(gem) ? [*Runtime.ruby, gem, *rest] : [Runtime.path(program), *rest]
      end

      def wait_until_it_answers
        Listening.wait(@pid, PATIENCE, pause: 0.002) { answers? }
      rescue RuntimeError => error
        stop
        raise "the server #{error.message}: #{log}"
      end

      def answers?
        TCPSocket.open("127.0.0.1", port) do |socket|
          socket.write("GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
          socket.readpartial(12).start_with?("HTTP/1.1 200")
        end
      rescue SystemCallError, EOFError
        false
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
