# frozen_string_literal: true

require "json"
require_relative "iotest_options"
require_relative "iotest_transfer"
require_relative "../../neverblock"

module NB
  module CLI
    # `nb iotest`: how fast bytes go from disk to disk, over the network or without it; after the
    # AsyncIoTest of 2006, with its letters.
    module Iotest
      # One line for the list of commands.
      SUMMARY = "measure how fast bytes go through network and disk"
      # What `nb help iotest` prints.
      USAGE = <<~TEXT
        usage: nb iotest -s [-n | -d -l LENGTH] [options]          the server, which receives
               nb iotest -c HOST -f FILE | -n -l LENGTH | -d -f FILE [-t] [options]
                                                                   the client, which sends
               nb iotest suite [--cold] [-J] [LENGTH]              seven transfers on this machine, each
                                                                   compared with C (in a source
                                                                   tree), then nc, socat and iperf3
               nb iotest findings FILE ...                         what AsyncIoTest's author expected, and
                                                                   what files of suite -J say

        Sends a file to a server that writes it to disk. There is no protocol: the client sends bytes
        and closes the connection. `nc -N HOST 12345 < file` and `nc -l 12345 > file` (OpenBSD's nc)
        can replace either end.

          -n         network only: the client sends random bytes, the server drops them
          -d         disk only: the client reads and drops the file, the server writes random bytes
          -t         the client sends with sendfile(2); with -n, with MSG_ZEROCOPY
          -f FILE    what the client reads          -l LENGTH  how many bytes, without a file
          -k CHUNK   bytes per read (64K)           -b SIZE    of the socket's buffers
          -o N       chunks read ahead (2)          -p PORT    (12345)
          -1         the server ends after one connection
          -J         JSON instead of text
              --out FILE   where the server writes (asynciotest.out)
              --cold       read files from the disk and write them to it, not only to memory, by
                           posix_fadvise(2) and fdatasync(2). O_DIRECT is not used: it needs buffers,
                           offsets and lengths in whole blocks, which Ruby's strings are not

        Lengths: 500, 64k = 64,000, 64K = 65,536, m, M, g, G.
      TEXT
      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling may wait
        def run(argv)
          return suite(argv.drop(1)) if argv.first == "suite"
          return findings(argv.drop(1)) if argv.first == "findings"

          options = IotestOptions.parse(argv)
          CLI.load_loop
          NB.run { options.role == :server ? serve(options) : ask(options) } ? 0 : 1
        end

        private

        def ask(options)
          measure(options, options.network? ? "sent" : "read") do |transfer|
            next transfer.send_to(File.open(File::NULL, "wb")) unless options.network?

            socket = transfer.prepare(connect(options))
            transfer.send_to(socket)
            socket.close_write
            socket.read # the server closes when it has everything
            socket.close
          end
        end

        def serve(options)
          return write_only(options) unless options.network?

          server = listen(options.port)
          CLI.tell "listening on port #{server.local_address.ip_port}"
          loop do
            whole = serve_one(options, server.accept)
            return whole if options.once
          end
        ensure
          server&.close
        end

        def connect(options)
          TCPSocket.new(options.host, options.port)
        rescue SystemCallError, SocketError => error
          raise Failure, "nothing listens on #{options.host}, port #{options.port} " \
                         "(nb iotest -s): #{error.message}"
        end

        def listen(port)
          TCPServer.new(port)
        rescue SystemCallError => error
          raise Failure, "cannot listen on port #{port}: #{error.class.new.message}: name " \
                         "another -p, or 0 for any free one"
        end

        # @return [Boolean] whether the client closed its side itself
        def serve_one(options, connection)
          take(options, connection)
        rescue Errno::ECONNRESET, Errno::EPIPE, Errno::ETIMEDOUT => error
          CLI.tell "nb iotest: the client is gone: #{error.message}"
          false
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
          true
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
          require_relative "iotest_suite"
          options, lengths = argv.partition { |word| %w[--cold -J --json].include?(word) }
          raise UsageError, "suite takes one length, got: #{lengths.join(" ")}" if lengths.size > 1

          cold, json = options.partition { |word| word == "--cold" }
          IotestSuite.new(lengths.first || "100M", cold.any?, json: json.any?).run
        end

        def findings(paths)
          require_relative "iotest_findings"
          raise UsageError, "findings needs files" if paths.empty?

          IotestFindings.new(paths).all.each { |finding| puts finding.line }
          0
        end
      end
    end
  end
end
