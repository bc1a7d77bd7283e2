# frozen_string_literal: true

begin
  require "neverblock"
rescue ArgumentError => error # NB_DRIVERS: rackup would print a backtrace
  abort "neverblock: #{error.message}"
end
require "neverblock/server/launcher"

# Rack's own command line (gem rackup).
module Rackup
  # Where `rackup -s NAME` looks servers up.
  module Handler
    # `rackup -s neverblock` and `rails server -u neverblock`.
    class Neverblock
      # The start of an address that says no port.
      PORTLESS = %r{\A(?:ssl|tcp)://(?:\[[^\]]*\]|[^:/?]+)(?=[/?]|\z)}
      private_constant :PORTLESS

      # @param app [#call]
      # @param options [Hash] Host, Port, Fibers, Workers, as the -O flags of rackup give them
      # @return [void]
      # @scheduling always waits
      def self.run(app, **options)
        return_home(options[:config]) if options[:daemonize]
        config = configure(options)
        config.on_restart { forget_pidfile(options[:pid]) }
        launcher = NB::Server::Launcher.new(config, app: app, kept_file: options[:pid])
        yield launcher if block_given?
        launcher.run
      rescue NB::Server::SetupError => error
        abort "neverblock: #{error.message}"
      end

      # A daemon of Rack 2 is in the root folder, where it finds neither config/neverblock.rb nor,
      # at USR2, its program. With Rack 3 it stays where it was started. PWD has the name of that
      # folder, unless whoever started it went there without a shell: hence the second look.
      def self.return_home(rackup_file)
        return if defined?(::Rackup::Server) || Dir.pwd != "/" || !rackup_file

        home = ENV.fetch("PWD", "")
        home = File.dirname(rackup_file) unless holds?(home, rackup_file)
        Dir.chdir(home)
      end

      # Rack has made the file's path absolute before the program became a daemon.
      def self.holds?(folder, file)
        return false unless folder.start_with?("/") && File.directory?(folder)

        [folder, File.realpath(folder)].any? { |name| file.start_with?(File.join(name, "")) }
      end

      # Errors of the configuration and the environment are reported in one line, as by `nb serve`.
      def self.configure(options)
        NB::Scheduler.check(nil)
        config = NB::Server::Config.new
        config.settle do
          config.load("config/neverblock.rb") if File.exist?("config/neverblock.rb")
        end
        config.settle { apply(options, config) }
      rescue ArgumentError => error
        abort "neverblock: #{error.message}"
      end

      def self.apply(options, config)
        host, port = options.values_at(:Host, :Port)
        config.replace_bindings([address((host || "localhost").to_s, port || 9292)])
        config.fibers(options[:Fibers]) if options[:Fibers]
        config.workers(options[:Workers]) if options[:Workers]
        config.early_hints(true) if options[:early_hints] # rails server --early-hints
      end

      # With Puma, too, a host may be the path of a UNIX socket, or an address with its scheme.
      def self.address(host, port)
        return "unix://#{host}" if host.start_with?("/", ".", "@")
        return host.sub(PORTLESS) { |place| "#{place}:#{port}" } if host.include?("://")

        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "tcp://#{host}:#{port}"
      end
      private_class_method :return_home, :holds?, :configure, :apply, :address

      # Rails and rackup write a pidfile, and exit if it names a running process: the one that USR2
      # has just replaced.
      def self.forget_pidfile(path)
        File.unlink(path) if path && File.file?(path) && File.read(path).to_i == Process.pid
      end
      private_class_method :forget_pidfile

      # @return [Hash{String=>String}] what `rackup -h` prints
      def self.valid_options
        {"Host=HOST" => "address to listen on, or a UNIX socket's path (localhost)",
         "Port=PORT" => "port (9292)",
         "Fibers=N" => "requests that run at a time (1024)",
         "Workers=N" => "processes (one, no master)"}
      end
    end

    register :neverblock, Neverblock if respond_to?(:register)
  end
end
