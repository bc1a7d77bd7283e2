# frozen_string_literal: true

require_relative "delay_server"

module NB
  module CLI
    # `nb delayd`: {NB::DelayServer} as a program.
    module Delayd
      # One line for the list of commands.
      SUMMARY = "answer every HTTP request after a delay, for experiments"
      # What `nb help delayd` prints.
      USAGE = <<~TEXT
        usage: nb delayd [--port N] [--delay MS] [--body BYTES] [--close] [--bind ADDRESS] [--workers N]

        Answers every HTTP request after a delay. A request may set its own delay and length:
        GET /?ms=28.6&bytes=1000

          -p, --port N        port to listen on (8080); 0: any free port, named in the first line printed
          -d, --delay MS      milliseconds before an answer (0), up to 86400000
          -b, --body BYTES    length of an answer (4: "done"), up to 1000000000000
          -c, --close         close after every answer, whatever the client asks for
              --bind ADDRESS  address to listen on (127.0.0.1)
          -w, --workers N     threads, each with its own loop (1); they share the port
          -q, --quiet         print nothing but errors

        At Ctrl-C or SIGTERM it prints its counters and ends. It raises its limit of open files as far
        as the system permits; docs/TROUBLESHOOTING.md says how to raise it further.
      TEXT
      # The limit of open files that it asks for: one for each connection.
      OPEN_FILES = 65_536
      # What to do about the errors of listening.
      CURES = {
        Errno::EADDRINUSE => ": choose another --port, or 0 for any free one",
        Errno::EADDRNOTAVAIL => ": --bind must be an address of this machine, or a name for one",
        Errno::EACCES => ": this user may not; choose a --port from 1024 on"
      }.freeze
      private_constant :OPEN_FILES, :CURES

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits, until a signal
        def run(argv)
          options = parse(argv)
          raise_open_files
          servers = listen(**options.slice(:server, :workers))
          serve(servers) { announce(servers.first, options) unless options[:quiet] }
          CLI.tell totals(servers) unless options[:quiet]
          0
        end

        private

        def parse(argv)
          server = { port: 8080 }
          options = { server: server, workers: 1 }
          rest = read(argv, server, options)
          raise UsageError, "takes no argument, got: #{rest.first.inspect}" if rest.any?

          options
        end

        def read(argv, server, options)
          CLI.parse(argv) do |on|
            on.on("-p", "--port N", Integer) { |port| server[:port] = port }
            on.on("-d", "--delay MS", Numeric) { |ms| server[:delay] = delay(ms) }
            on.on("-b", "--body BYTES", Integer) { |bytes| server[:body_bytes] = bytes }
            on.on("-c", "--close") { server[:close] = true }
            on.on("--bind ADDRESS") { |address| server[:bind] = bind(address) }
            on.on("-w", "--workers N", Integer) { |count| options[:workers] = workers(count) }
            on.on("-q", "--quiet") { options[:quiet] = true }
          end
        end

        def delay(ms)
          return ms / 1000.0 if ms.between?(0, DelayServer::MAX_DELAY * 1000)

          raise UsageError, "--delay: must be from 0 to 86400000 ms, got: #{ms}"
        end

        def bind(address)
          return address unless address.empty?

          raise UsageError, "--bind: must be an address of this machine, got: \"\""
        end

        def workers(count)
          return count if count.between?(1, 256)

          raise UsageError, "--workers: must be from 1 to 256, got: #{count}"
        end

        def listen(server:, workers:)
          first = DelayServer.new(**server, shared: workers > 1)
          [first] + Array.new(workers - 1) do
            DelayServer.new(**server, port: first.port, shared: true)
          end
        rescue ArgumentError => error # of the server, whose words are not those of the command line
          raise UsageError, error.message.sub(/\A(?=port:)/, "--").sub(/\Abody_bytes:/, "--body:")
        rescue SystemCallError => error
          raise Failure, "cannot listen: #{error.message}#{CURES[error.class]}"
        end

        def announce(server, options)
          ms = options[:server].fetch(:delay, 0) * 1000
          bind = options[:server].fetch(:bind, "127.0.0.1")
          host = bind.include?(":") ? "[#{bind}]" : bind
          puts format("delayd listens on http://%s:%d/ (delay %g ms, %d worker%s)",
                      host, server.port, ms, options[:workers], options[:workers] == 1 ? "" : "s")
          $stdout.flush
        end

        # Ruby's own handlers raise in the main thread: Interrupt, or SignalException for SIGTERM.
        # Inside the block, these signals end the server cleanly.
        def serve(servers)
          threads = servers.map { |server| Thread.new { server.run } }
          threads.each { |thread| thread.report_on_exception = false }
          yield
          threads.each(&:join)
        rescue SignalException => signal
          raise unless %w[SIGINT SIGTERM].include?(signal.signm) || signal.is_a?(Interrupt)
        ensure
          servers.each(&:stop)
          threads&.each(&:join)
          servers.each(&:close)
        end

        def totals(servers)
          sum = servers.map(&:stats).reduce { |one, two| one.merge(two) { |_, a, b| a + b } }
          format("delayd: %<accepted>d connections, %<answered>d requests answered, " \
                 "%<refused>d refused", sum)
        end

        def raise_open_files
          soft, hard = Process.getrlimit(:NOFILE)
          return if soft >= OPEN_FILES

          Process.setrlimit(:NOFILE, OPEN_FILES, [hard, OPEN_FILES].max)
        rescue SystemCallError
          Process.setrlimit(:NOFILE, hard, hard) # only root may exceed the hard limit
        end
      end
    end
  end
end
