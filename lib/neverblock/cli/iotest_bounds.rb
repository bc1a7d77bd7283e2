# frozen_string_literal: true

require "json"
require "open3"
require "socket"
require "tempfile"
require_relative "bench"
require_relative "terminal"

module NB
  module CLI
    # What other programs reach on this machine, to stand beside the transfers of `nb iotest suite`:
    # one in C (of the source tree), nc and socat with a file, iperf3 with bytes from memory.
    class IotestBounds
      # Commands that drop what they receive, and that send standard input. Of nc there are several
      # programs: these are OpenBSD's options.
      PIPES = { "nc" => [%w[nc -l 127.0.0.1 PORT], %w[nc -N 127.0.0.1 PORT]],
                "socat" => [%w[socat -u TCP-LISTEN:PORT,bind=127.0.0.1 STDOUT],
                            %w[socat -u STDIN TCP:127.0.0.1:PORT]] }.freeze
      # How long a server may take to listen, in seconds.
      PATIENCE = 10
      private_constant :PIPES, :PATIENCE

      # @return [Array<String>] a sentence for each program that is not there
      attr_reader :missing

      # @param file [String] what is sent
      # @param bytes [Integer] its length
      def initialize(file, bytes)
        @file = file
        @bytes = bytes
        @missing = []
      end

      # @return [String, nil] the program in C, compiled
      # @scheduling may wait
      def c
        return @c if defined?(@c)

        Bench.load_tree
        @c = ::Bench::Compiled.program("c_transfer")
      rescue UsageError, ::Bench::Error => error
        @missing << "not compared with C: #{error.message}"
        @c = nil
      end

      # @yieldparam name [String]
      # @yieldparam client [Hash] its seconds and CPU seconds
      # @yieldparam server [Hash]
      # @return [void]
      # @scheduling may wait
      def each
        [*PIPES.keys, "iperf3"].each do |name|
          next unless installed?(name)

          found = measured(name) and yield name, *found
        end
      end

      private

      # @return [Array<Hash>, nil] nil: it fails, and {#missing} says so
      def measured(name)
        PIPES.key?(name) ? pipe(*PIPES[name]) : iperf
      rescue Failure => error
        @missing << "not compared with #{name}, which fails: #{error.message}"
        nil
      end

      def installed?(program)
        Terminal.path(program) ||
          !(@missing << "not compared with #{program}, which is not installed")
      end

      def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }.to_s

      def pipe(*commands)
        port = free_port
        server, client = commands.map { |words| words.map { |word| word.sub("PORT", port) } }
        receiver = start(*server, in: File::NULL)
        sleep 0.01 until listens?(port, receiver)
        began = clock
        sent = cost { start(*client, in: @file) }
        received = cost { receiver }.merge("seconds" => clock - began)
        receiver = nil
        [sent, received]
      ensure
        kill(receiver) if receiver
      end

      # What it complains of goes into the sentence of {#missing}.
      def start(*command, **options)
        @errors = Tempfile.new("nb-iotest")
        spawn(*command, out: File::NULL, err: @errors.path, **options)
      end

      def kill(pid)
        Process.kill(:KILL, pid)
        Process.wait(pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil # it has ended, and was waited for
      end

      def failed(what)
        words = File.foreach(@errors.path).first.to_s.scrub.strip
        raise Failure, words.empty? ? what : words
      end

      # Without a connection, which would be the one that it serves.
      def listens?(port, pid)
        @since ||= clock
        failed("it does not listen") if
          Process.wait(pid, Process::WNOHANG) || clock - @since > PATIENCE

        listening = File.foreach("/proc/net/tcp").any? do |line|
          line.match?(/\A *\d+: \h+:#{format("%04X", port)} \h+:\h+ 0A /)
        end
        @since = nil if listening
        listening
      end

      # @yieldreturn [Integer] pid
      # @return [Hash]
      def cost
        start = clock
        before = Process.times
        Process.wait(yield)
        failed("exit status #{$?.exitstatus.inspect}") unless $?.success?

        after = Process.times
        { "seconds" => clock - start, "cpu_user" => after.cutime - before.cutime,
          "cpu_system" => after.cstime - before.cstime }
      end

      def iperf
        port = free_port
        IO.popen(["iperf3", "-s", "-1", "--forceflush", "-p", port]) do |server|
          nil until server.gets.to_s.match?(/listening|\A\z/)
          sum = ask_iperf(port)
          %w[sent received].map { |side| iperf_facts(sum, side) }
        ensure
          Process.kill(:KILL, server.pid)
        end
      end

      def ask_iperf(port)
        out, status = Open3.capture2("iperf3", "-c", "127.0.0.1", "-p", port, "-n", @bytes.to_s,
          "-J")
        return JSON.parse(out).fetch("end") if status.success?

        raise Failure, "#{out[/"error":\s*"(.*)"/, 1]}"
      end

      # iperf3 gives shares of the processor in percent.
      def iperf_facts(sum, side)
        seconds = sum.fetch("sum_sent").fetch("seconds")
        share = sum.fetch("cpu_utilization_percent")
        end_of = side == "sent" ? "host" : "remote"
        { "seconds" => seconds, "cpu_user" => share.fetch("#{end_of}_user") / 100 * seconds,
          "cpu_system" => share.fetch("#{end_of}_system") / 100 * seconds }
      end

      def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
