# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"
require "securerandom"
require "tmpdir"
require_relative "iotest_bounds"
require_relative "iotest_options"

module NB
  module CLI
    # `nb iotest suite`: the seven transfers of the articles on this machine. Each end is a process
    # of its own, and each transfer is also done in C. The results of other programs follow.
    class IotestSuite
      # The options of each end, in addition to host, file, length and port: server, client.
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
      C = "C"
      private_constant :RECIPES, :NB_PROGRAM, :HEAD, :C

      # @param length [String] of each transfer, such as "100M"
      # @param cold [Boolean] see --cold
      # @param json [Boolean] one JSON object per row instead of the table
      # @raise [UsageError] for an invalid length
      def initialize(length, cold, json: false)
        @bytes = IotestOptions.bytes("-l", length)
        @length = length
        @cold = cold ? %w[--cold] : []
        @json = json
      end

      # Prints one row per transfer.
      #
      # @return [Integer] exit status
      # @scheduling may wait
      def run
        Dir.mktmpdir("nb-iotest") do |folder|
          @file = File.join(folder, "source")
          write_source
          puts HEAD unless @json
          bounds = IotestBounds.new(@file, @bytes)
          RECIPES.each { |name, ends| compare(name, ends, bounds.c) }
          bounds.each { |name, client, server| row([name, name], client, server) }
          miss(bounds.missing)
        end
        0
      end

      private

      def write_source
        block = SecureRandom.random_bytes([@bytes, 1 << 20].min)
        File.open(@file, "wb") do |file|
          left = @bytes
          left -= file.write(block.byteslice(0, left)) while left.positive?
          file.fdatasync if @cold.any? # what is not on the disk yet cannot be dropped from memory
        end
      end

      # Only rows are JSON.
      def miss(sentences)
        return puts(sentences) unless @json

        sentences.each { |sentence| CLI.tell "nb iotest: #{sentence}" }
      end

      def compare(name, ends, program)
        row([name, "nb"], *both([*nb, *@cold], *ends))
        row([name, C], *both([program], *ends)) if program
      end

      def row((transfer, program), client, server)
        puts @json ? json(transfer, program, client: client, server: server) :
          line(program == C ? "  the same in C" : transfer, client, server)
        $stdout.flush
      end

      def line(name, client, server)
        format("%-25s %6.2f  %6.2f  %16.2f  %6.2f", name, client["seconds"],
          @bytes * 8 / client["seconds"] / 1e9, cpu(client), cpu(server))
      end

      def json(transfer, program, ends)
        JSON.generate(transfer: transfer, program: program, bytes: @bytes,
                      cold: @cold.any? && program == "nb", **ends)
      end

      # Seconds per gigabyte.
      def cpu(facts) = (facts["cpu_user"] + facts["cpu_system"]) / @bytes * 1e9

      # @return [Array<Hash>] the reports of client and server
      def both(program, server, client)
        target = ["--out", "#{@file}.out"]
        Open3.popen3(*program, *%w[-J -s -1 -p 0], *target, *server) do |*pipes, process|
          _, told, errors = pipes
          port = errors.gets.to_s[/\d+/] or raise Failure, "the server did not start"
          given = client.include?("-f") ? [@file] : ["-l", @length]
          sent = IO.popen([*program, *%w[-J -c 127.0.0.1 -p], port, *client, *given], &:read)
          raise Failure, "a transfer failed, see above" unless $?.success? && process.value.success?

          [sent, told.read].map { |text| JSON.parse(text) }
        end
      end

      def nb
        [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, "iotest"]
      end
    end
  end
end
