# frozen_string_literal: true

require "json"
require_relative "iotest_options"
require_relative "iotest_transfer"
require_relative "../../neverblock"

module NB
  module CLI
    # `nb iotest`: how fast bytes go from disk to disk, over the network or without it; after the
    # AsyncIoTest of 2008, with its letters.
    module Iotest
      # One line for the list of commands.
      SUMMARY = "measure how fast bytes go through network and disk"
      # What `nb help iotest` prints.
      USAGE = <<~TEXT
        usage: nb iotest -s [-n | -d -l LENGTH] [options]          the receiver
               nb iotest -c HOST -f FILE | -n -l LENGTH | -d -f FILE [-t] [options]
               nb iotest suite [LENGTH]                            seven transfers on this machine

        Sends a file to a server that writes it. There is no protocol: bytes, then the connection
        closes; so `nc HOST 12345 < file` and `nc -l 12345 > file` do for either end.

          -n         network only: the client sends random bytes, the server drops what comes
          -d         disk only: the client reads and drops, the server writes random bytes
          -t         the client sends by sendfile(2)
          -f FILE    what the client reads          -l LENGTH  how much, where there is no file
          -k CHUNK   bytes of a read (64K)          -b SIZE    of the socket's buffers
          -o N       chunks read ahead (2)          -p PORT    (12345)
          -1         the server ends after one connection
          -J         JSON instead of words
              --out FILE   where the server writes (asynciotest.out)

        Lengths: 500, 64k = 64,000, 64K = 65,536, m, M, g, G.
      TEXT
      # Of the articles: what each end is asked for beside host, file, length and port.
      RECIPES = {
        "network" => [%w[-n], %w[-n]],
        "network, larger chunks" => [%w[-n -k 256k -b 64k], %w[-n -k 256k -b 64k]],
        "network, sendfile" => [%w[-n -k 256k -b 64k], %w[-n -k 256k -b 64k -t]],
        "client's disk" => [%w[-n -k 256k -b 64k], %w[-k 256k -b 64k -f]],
        "client's disk, sendfile" => [%w[-n -k 256k -b 64k], %w[-k 256k -b 64k -t -f]],
        "server's disk" => [%w[-k 256k -b 64k], %w[-n -k 256k -b 64k]],
        "both disks" => [%w[-k 256k -b 64k], %w[-k 256k -b 64k -f]]
      }.freeze
      private_constant :RECIPES

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling may wait
        def run(argv)
          return suite(argv.drop(1)) if argv.first == "suite"

          options = IotestOptions.parse(argv)
          NB.run { options.role == :server ? serve(options) : ask(options) }
          0
        rescue SystemCallError => error
          warn "nb iotest: #{error.message}"
          1
        rescue Interrupt
          130
        end

        private

        def ask(options)
          measure(options, options.network? ? "sent" : "read") do |transfer|
            next transfer.send_to(File.open(File::NULL, "wb")) unless options.network?

            socket = transfer.prepare(TCPSocket.new(options.host, options.port))
            transfer.send_to(socket)
            socket.close_write
            socket.read # the server closes when it has everything
            socket.close
          end
        end

        def serve(options)
          return write_only(options) unless options.network?

          server = TCPServer.new(options.port)
          warn "listening on port #{server.local_address.ip_port}"
          loop do
            take(options, server.accept)
            break if options.once
          end
        ensure
          server&.close
        end

        def write_only(options)
          File.open(options.out, "wb") do |file|
            measure(options, "written") { |transfer| transfer.receive(nil, file) }
          end
        end

        def take(options, connection)
          measure(options, "received") do |transfer|
            transfer.prepare(connection)
            if options.disk?
              File.open(options.out, "wb") { |file| transfer.receive(connection, file) }
            else
              transfer.receive(connection, nil)
            end
          end
        ensure
          connection.close
        end

        def measure(options, verb)
          before = Process.times
          started = clock
          yield transfer = IotestTransfer.new(options)
          seconds = clock - started
          after = Process.times
          facts = { bytes: transfer.bytes, seconds: seconds, cpu_user: after.utime - before.utime,
                    cpu_system: after.stime - before.stime }
          puts options.json ? JSON.generate(facts) : words(verb, facts)
          $stdout.flush
        end

        def words(verb, facts)
          bytes, seconds, user, system = facts.values
          cpu = user + system
          format("%s %.1f MB in %.2f s = %.2f Gbit/s, CPU %.0f %% (%.0fu + %.0fs), %.2f CPU s/GB",
                 verb, bytes / 1e6, seconds, bytes * 8 / seconds / 1e9, cpu / seconds * 100,
                 user / seconds * 100, system / seconds * 100, cpu / bytes.clamp(1, nil) * 1e9)
        end

        def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

        def suite(argv)
          length = argv.first || "100M"
          size = IotestOptions.bytes(length)
          Dir.mktmpdir("nb-iotest") do |folder|
            file = File.join(folder, "source")
            File.binwrite(file, SecureRandom.random_bytes(size))
            RECIPES.each { |name, ends| recipe(name, ends, file: file, length: length) }
          end
          0
        end

        # The server in a process of its own; it tells its port on standard error.
        def recipe(name, ends, file:, length:)
          input, output = IO.pipe
          server = fork do
            $stderr.reopen(output)
            $stdout.reopen(File::NULL)
            exit run(["-s", "-1", "-p", "0", "--out", "#{file}.out", *ends[0]])
          end
          port = input.gets[/\d+/]
          print "#{name.ljust(25)} "
          given = ends[1].include?("-f") ? [file] : ["-l", length]
          run(["-c", "127.0.0.1", "-p", port, *ends[1], *given])
          Process.wait(server)
        end
      end
    end
  end
end
