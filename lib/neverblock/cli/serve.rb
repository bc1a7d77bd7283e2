# frozen_string_literal: true

require_relative "../../neverblock"
require_relative "../server/launcher"
require_relative "profile_file"

module NB
  module CLI
    # `nb serve`: the web server for Rack applications.
    module Serve
      # One line for the list of commands.
      SUMMARY = "serve a Rack application (config.ru) over HTTP"
      # What `nb help serve` prints.
      USAGE = <<~TEXT
        usage: nb serve [options] [config.ru]

        Serves the Rack application of the rackup file. Reads config/neverblock.rb if it exists; flags
        override it.

          -b, --bind ADDRESS      tcp://host:port, tcp://[v6]:port, unix://path, ssl://host:port?cert=…&key=…,
                                  fd://3; may be given again (tcp://127.0.0.1:9292)
          -p, --port N            the same as -b tcp://0.0.0.0:N
          -w, --workers N         processes; auto: one per usable core (one, without a master)
          -e, --environment NAME  RACK_ENV (development)
          -C, --config FILE       instead of config/neverblock.rb; "-": none
              --fibers N          concurrent requests in one process (1024)
              --backlog N         connections that may wait to be accepted (4096)
              --drain-timeout SECONDS
                                  maximum time for running work after the first INT or TERM (25);
                                  0: end it at once
              --control ADDRESS   unix://path or tcp://host:port: statistics for nb stats, /ready for a
                                  load balancer, /metrics for Prometheus; may be given again
              --access-log FILE   one line per response; "-": standard output
              --pidfile FILE      write the process id into FILE while the server runs
              --page[=PATH]       a page that shows what the server does now, for clients on this
                                  machine (/neverblock)
              --blocking          at PWR and at the end, list the calls that waited outside the loop
                                  (Ruby 3.2)
              --profile[=FOLDER]  at the end, print where each process's time went; FOLDER (.) gets
                                  files for speedscope
          -q, --quiet             no banner

        Signals:

          INT (Ctrl-C), TERM  take no new work, let running work finish; a second one ends it at once
          QUIT                end at once
          USR1                replace the workers one by one
          USR2                replace the workers and the master, with new code
          TTIN, TTOU          start one more worker, end one
          PWR                 print the running requests
          HUP                 reopen the access log
      TEXT
      # Read if it exists and no other file is named.
      DEFAULT_CONFIG = "config/neverblock.rb"
      # Flags that are no words of the file.
      OWN = %i[binds config profile].freeze
      private_constant :OWN

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          flags = {binds: []}
          rest = parse(argv, flags)
          raise UsageError, "takes one rackup file, got: #{rest.join(" ")}" if rest.size > 1

          CLI.load_loop
          serve(configure(flags, rest.first))
        end

        private

        # Whatever the application raises while it loads keeps its backtrace, even an ArgumentError.
        def serve(config)
          Server::Launcher.new(config).run
          0
        rescue Server::SetupError => error
          raise Failure, error.message
        end

        def parse(argv, flags)
          CLI.parse(argv) do |parser|
            parser.on("-b", "--bind ADDRESS") { |address| flags[:binds] << address }
            parser.on("-p", "--port N", Integer) { |port| flags[:binds] << on_port(port) }
            parser.on("-w", "--workers N") { |count| flags[:workers] = workers(count) }
            parser.on("-e", "--environment NAME") { |name| flags[:environment] = name }
            parser.on("-C", "--config FILE") { |path| flags[:config] = path }
            limits(parser, flags)
            parser.on("--control ADDRESS") { |address| (flags[:control] ||= []) << address }
            parser.on("--access-log FILE") { |path| flags[:access_log] = path }
            parser.on("--pidfile FILE") { |path| flags[:pidfile] = path }
            parser.on("--page[=PATH]") { |path| flags[:page] = path || "/neverblock" }
            parser.on("--blocking") { flags[:blocking] = true }
            parser.on("--profile[=FOLDER]") { |folder| flags[:profile] = folder || "." }
            parser.on("-q", "--quiet") { flags[:quiet] = true }
          end
        end

        def workers(count)
          return count == "auto" ? :auto : count if count.match?(/\A(?:auto|\d+)\z/)

          raise UsageError, "--workers: must be auto or a number, got: #{count.inspect}"
        end

        def on_port(number)
          return "tcp://0.0.0.0:#{number}" if number.between?(0, 65_535)

          raise UsageError, "--port: a port is a number from 0 to 65535, got: #{number}"
        end

        def limits(parser, flags)
          parser.on("--fibers N", Integer) { |count| flags[:fibers] = count }
          parser.on("--backlog N", Integer) { |count| flags[:backlog] = count }
          parser.on("--drain-timeout SECONDS") do |value|
            flags[:drain_timeout] = CLI.drain_timeout(value)
          end
        end

        def configure(flags, rackup)
          config = Server::Config.new
          path = flags[:config] || (DEFAULT_CONFIG if File.exist?(DEFAULT_CONFIG))
          config.settle { read(config, path) } if path && path != "-"
          config.settle { apply(flags, rackup, config) }
        rescue ArgumentError => error
          raise UsageError, error.message
        end

        # The command line overrides the file.
        def apply(flags, rackup, config)
          bind(config, flags[:binds])
          flags.each { |name, value| set(config, name, value) unless OWN.include?(name) }
          config.rackup(rackup) if rackup
          profile(config, flags[:profile]) if flags[:profile]
          raise UsageError, CLI.no_file(config.rackup) unless File.file?(config.rackup)
          raise Failure, "this user may not read #{config.rackup}" unless
            File.readable?(config.rackup)
        end

        def bind(config, addresses)
          parse = -> { config.bindings.each { |address| Server::Address.parse(address) } }
          return parse.call if addresses.empty?

          config.replace_bindings(addresses)
          option("bind", &parse)
        end

        def set(config, name, value) = option(name) { config.public_send(name, value) }

        # An error names the setting, as in a file.
        def option(name)
          yield
        rescue ArgumentError => error
          raise UsageError, error.message.sub(/\A#{name}(?=:)/) { "--#{name.to_s.tr("_", "-")}" }
        end

        def profile(config, folder)
          CLI.folder("--profile", folder)
          config.around do |serve|
            path = File.join(folder, "profile-#{Process.pid}.speedscope.json")
            ProfileFile.new(path).record(&serve)
          end
        end

        def read(config, path)
          raise UsageError, CLI.no_file(path) unless File.file?(path)

          config.load(path)
        end
      end
    end
  end
end
