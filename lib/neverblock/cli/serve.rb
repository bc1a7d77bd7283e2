# frozen_string_literal: true

require "optparse"
require_relative "../server/launcher"

module NB
  module CLI
    # `nb serve`: the web server for Rack applications.
    module Serve
      # One line for the list of commands.
      SUMMARY = "serve a Rack application (config.ru) over HTTP"
      # What `nb help serve` prints.
      USAGE = <<~TEXT
        usage: nb serve [options] [config.ru]

        Serves the Rack application of the rackup file. Reads config/neverblock.rb if it is there;
        flags beat it.

          -b, --bind ADDRESS      tcp://host:port, tcp://[v6]:port, unix://path, ssl://host:port?cert=…&key=…,
                                  fd://3; may be given again (tcp://127.0.0.1:9292)
          -p, --port N            the same as -b tcp://0.0.0.0:N
          -w, --workers N         processes; auto: one per usable core; without it one, and no master
          -e, --environment NAME  RACK_ENV (development)
          -C, --config FILE       instead of config/neverblock.rb; "-": none
              --fibers N          requests that run at a time in one process (1024)
              --control ADDRESS   unix://path: statistics for nb stats, /ready for a load balancer
              --access-log FILE   one line per answer; "-": standard output
              --pidfile FILE
          -q, --quiet             no banner

        TERM or Ctrl-C ends it when the requests that run are answered, within 25 s; QUIT at once.
        Workers: USR1 replaces them one by one, USR2 the master too, TTIN and TTOU change their number.
        PWR prints what runs, HUP opens the access log again.
      TEXT
      # Read when it is there and no other file is named.
      DEFAULT_CONFIG = "config/neverblock.rb"

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          flags = {binds: []}
          rest = parser(flags).parse(argv)
          raise UsageError, "one rackup file, got: #{rest.join(" ")}" if rest.size > 1

          config = configure(flags, rest.first)
          Server::Launcher.new(config, arguments: argv).run
          0
        rescue OptionParser::ParseError, ArgumentError => error
          raise UsageError, error.message
        end

        private

        def parser(flags)
          OptionParser.new do |parser|
            parser.on("-b", "--bind ADDRESS") { |address| flags[:binds] << address }
            parser.on("-p", "--port N", Integer) { |port| flags[:binds] << "tcp://0.0.0.0:#{port}" }
            parser.on("-w", "--workers N") { |count|
 flags[:workers] = count == "auto" ? :auto : Integer(count) }
            parser.on("-e", "--environment NAME") { |name| flags[:environment] = name }
            parser.on("-C", "--config FILE") { |path| flags[:config] = path }
            parser.on("--fibers N", Integer) { |count| flags[:fibers] = count }
            parser.on("--control ADDRESS") { |address| flags[:control] = address }
            parser.on("--access-log FILE") { |path| flags[:access_log] = path }
            parser.on("--pidfile FILE") { |path| flags[:pidfile] = path }
            parser.on("-q", "--quiet") { flags[:quiet] = true }
          end
        end

        def configure(flags, rackup)
          config = Server::Config.new
          path = flags[:config] || (DEFAULT_CONFIG if File.exist?(DEFAULT_CONFIG))
          config.load(path) if path && path != "-"
          config.replace_bindings(flags[:binds]) unless flags[:binds].empty?
          %i[workers environment fibers control access_log pidfile quiet].each do |name|
            config.public_send(name, flags[name]) if flags.key?(name)
          end
          config.rackup(rackup) if rackup
          raise UsageError, "there is no #{config.rackup}" unless File.exist?(config.rackup)

          config
        end
      end
    end
  end
end
