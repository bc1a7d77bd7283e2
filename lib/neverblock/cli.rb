# frozen_string_literal: true

require_relative "version"

module NB
  # The program `nb`: finds the command, runs it, turns its errors into an exit status.
  #
  # A command is a module with `SUMMARY`, `USAGE` and `run(argv)`, alone in cli/<name>.rb. Only the
  # one that was asked for is loaded, so that `nb run` adds as little as it can to a script.
  module CLI
    # Exit status when the command line was wrong.
    USAGE_STATUS = 2
    # Every command and the constant it is.
    COMMANDS = {
      "run" => :Run, "demo" => :Demo, "bench" => :Bench, "delayd" => :Delayd, "help" => :Help,
      "iotest" => :Iotest, "rubyhttp" => :Rubyhttp, "serve" => :Serve, "stats" => :Stats,
      "doctor" => :Doctor
    }.freeze

    # The command line was wrong. The message says what, with the value.
    class UsageError < StandardError; end

    class << self
      # @param argv [Array<String>] the words after `nb`
      # @return [Integer] the exit status: 0 well, 1 failed, 2 wrong command line
      def start(argv)
        name, *rest = argv
        case name
        when nil then call("help", []) && USAGE_STATUS
        when "-h", "--help" then call("help", rest)
        when "-v", "--version" then puts(VERSION) || 0
        else call(name, rest)
        end
      rescue UsageError => error
        complain(name, error)
      end

      # @param name [String] of a command
      # @return [Module] the command
      # @raise [UsageError] for a name that is none, with the one that may have been meant
      def command(name)
        constant = COMMANDS[name] or raise UsageError, unknown(name)
        require_relative "cli/#{name}"
        const_get(constant)
      end

      private

      def call(name, argv)
        found = command(name)
        return call("help", [name]) if name != "run" && (argv & %w[-h --help]).any?

        status = found.run(argv)
        status.is_a?(Integer) ? status : 0
      end

      def unknown(name)
        require "did_you_mean"
        meant = DidYouMean::SpellChecker.new(dictionary: COMMANDS.keys).correct(name).first
        "there is no command #{name.inspect}#{", did you mean: nb #{meant}" if meant}"
      end

      def complain(name, error)
        warn "nb#{" #{name}" if COMMANDS.key?(name)}: #{error.message}"
        warn "See: nb help#{" #{name}" if COMMANDS.key?(name)}"
        USAGE_STATUS
      end
    end
  end
end
