# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"
require "securerandom"
require "socket"
require "tmpdir"
require_relative "iotest_options"

module NB
  module CLI
    # `nb iotest suite`: the seven transfers of the articles on this machine, each end a process of
    # its own, and beside them what other programs reach here.
    class IotestSuite
      # What each end is asked for beside host, file, length and port: server, client.
      RECIPES = {
        "network" => [%w[-n], %w[-n]],
        "network, larger chunks" => [%w[-n -k 256k -b 64k], %w[-n -k 256k -b 64k]],
        "network, without copying" => [%w[-n -k 256k -b 64k], %w[-n -k 256k -b 64k -t]],
        "client's disk" => [%w[-n -k 256k -b 64k], %w[-k 256k -b 64k -f]],
        "client's disk, sendfile" => [%w[-n -k 256k -b 64k], %w[-k 256k -b 64k -t -f]],
        "server's disk" => [%w[-k 256k -b 64k], %w[-n -k 256k -b 64k]],
        "both disks" => [%w[-k 256k -b 64k], %w[-k 256k -b 64k -f]]
      }.freeze
      NB_PROGRAM = File.expand_path("../../../exe/nb", __dir__)
      HEAD = "                              s  Gbit/s  CPU s/GB: client  server"
      private_constant :RECIPES, :NB_PROGRAM, :HEAD

      # @param length [String] of each transfer, such as "100M"
      # @param cold [Boolean] see --cold
      # @raise [UsageError] for what is no length
      def initialize(length, cold)
        @bytes = IotestOptions.bytes(length)
        @length = length
        @cold = cold ? %w[--cold] : []
      end

      # Prints a row for each.
      #
      # @return [Integer] exit status
      # @scheduling may wait
      def run
        Dir.mktmpdir("nb-iotest") do |folder|
          @file = File.join(folder, "source")
          write_source
          puts HEAD
          RECIPES.each { |name, (server, client)| row(name, *both(server, client)) }
          reference
        end
        0
      end

      private

      def write_source
        block = SecureRandom.random_bytes([@bytes, 1 << 20].min)
        File.open(@file, "wb") do |file|
          left = @bytes
          left -= file.write(block.byteslice(0, left)) while left.positive?
        end
      end

      def row(name, client, server)
        puts format("%-25s %6.2f  %6.2f  %16.2f  %6.2f", name, client["seconds"],
          @bytes * 8 / client["seconds"] / 1e9, cpu(client), cpu(server))
        $stdout.flush
      end

      # Seconds for a gigabyte.
      def cpu(facts) = (facts["cpu_user"] + facts["cpu_system"]) / @bytes * 1e9

      # @return [Array<Hash>] what client and server tell of themselves
      def both(server, client)
        Open3.popen3(*nb(%w[-s -1 -p 0 --out], "#{@file}.out", server)) do |*pipes, process|
          _, told, errors = pipes
          port = errors.gets.to_s[/\d+/] or raise Failure, "the server did not start"
          given = client.include?("-f") ? [@file] : ["-l", @length]
          sent = IO.popen(nb(["-c", "127.0.0.1", "-p", port], client, given), &:read)
          raise Failure, "a transfer failed, see above" unless $?.success? && process.value.success?

          [sent, told.read].map { |text| JSON.parse(text) }
        end
      end

      def nb(*words)
        [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, "iotest", "-J",
         *words.flatten, *@cold]
      end

      # The bound, where it is installed.
      def reference
        return puts("iperf3, to compare with, is not installed") unless installed?("iperf3")

        port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }.to_s
        IO.popen(["iperf3", "-s", "-1", "--forceflush", "-p", port]) do |server|
          nil until server.gets.to_s.match?(/listening|\A\z/)
          sum = iperf(port)
          row("iperf3", *%w[sent received].map { |side| iperf_facts(sum, side) })
        ensure
          Process.kill(:KILL, server.pid)
        end
      end

      def iperf(port)
        out, status = Open3.capture2("iperf3", "-c", "127.0.0.1", "-p", port, "-n", @bytes.to_s,
          "-J")
        return JSON.parse(out).fetch("end") if status.success?

        raise Failure, "iperf3 failed: #{out[/"error":\s*"(.*)"/, 1]}"
      end

      # iperf3 tells shares of the processor in percent.
      def iperf_facts(sum, side)
        seconds = sum.fetch("sum_sent").fetch("seconds")
        share = sum.fetch("cpu_utilization_percent")
        end_of = side == "sent" ? "host" : "remote"
        { "seconds" => seconds, "cpu_user" => share.fetch("#{end_of}_user") / 100 * seconds,
          "cpu_system" => share.fetch("#{end_of}_system") / 100 * seconds }
      end

      def installed?(program)
        ENV.fetch("PATH", "").split(":").any? { |path| File.executable?("#{path}/#{program}") }
      end
    end
  end
end
