# frozen_string_literal: true

require_relative "version"

module NB
  # The program `nb`: finds the command, runs it, turns its errors into an exit status.
  #
  # A command is a module with `SUMMARY`, `USAGE` and `run(argv)`, in its own file cli/<name>.rb.
  # Only the command that runs is loaded, so that `nb run` adds as little as it can to a script.
  module CLI
    # Exit status when the command line was wrong.
    USAGE_STATUS = 2
    # Exit status after Ctrl-C, as in shells.
    INTERRUPTED = 130
    # The commands that run other programs, which report their own errors.
    OWN_REPORTS = %w[run profile serve jobs].freeze
    # The commands that run a script. They parse their options by hand, and the script gets its
    # arguments unchanged.
    SCRIPTS = %w[run profile].freeze
    private_constant :INTERRUPTED, :OWN_REPORTS, :SCRIPTS
    # The name of each command, and that of its constant: first what runs programs, then what looks
    # at them, then what measures. `nb help` lists them in this order.
    COMMANDS = {
      "run" => :Run, "serve" => :Serve, "jobs" => :Jobs, "doctor" => :Doctor, "top" => :Top,
      "dump" => :Dump, "stats" => :Stats, "profile" => :Profile, "demo" => :Demo,
      "bench" => :Bench, "delayd" => :Delayd, "iotest" => :Iotest, "rubyhttp" => :Rubyhttp,
      "help" => :Help
    }.freeze

    # The command line was wrong. The message says what, with the value.
    class UsageError < StandardError; end

    # The command line was right, and the command failed. The message says why, and what to do.
    class Failure < StandardError; end

    class << self
      # @param argv [Array<String>] the words after `nb`
      # @return [Integer] the exit status: 0 success, 1 failure, 2 wrong command line
      def start(argv)
        name, *rest = argv
        choose(name, SCRIPTS.include?(name) ? rest : readable(rest))
      rescue UsageError => error
        complain(name, error)
      rescue Failure => error
        fail_with(name, error.message)
      rescue Errno::EPIPE
        raise if SCRIPTS.include?(name)

        1 # nobody reads the output any more
      rescue LoadError => error
        raise unless defined?(Native::MissingError) && error.is_a?(Native::MissingError)

        fail_with(name, error.message)
      rescue SystemCallError, IOError => error
        raise if OWN_REPORTS.include?(name)

        fail_with(name, error.message)
      rescue Interrupt
        raise if OWN_REPORTS.include?(name)

        INTERRUPTED
      end

      # @param name [String] of a command
      # @return [Module] the command
      # @raise [UsageError] for an unknown name; the message suggests a similar one
      def command(name)
        constant = COMMANDS[name] or raise UsageError, unknown(name)
        load_or_complain { require_relative "cli/#{name}" }
        const_get(constant)
      end

      # Loads the library, for commands that run in a loop.
      #
      # @param backend [String, nil] of the loop
      # @return [void]
      # @raise [UsageError] if the backend, or an environment variable, is not valid
      def load_loop(backend = nil)
        load_or_complain do
          require_relative "../neverblock"
          Scheduler.check(backend)
        end
      rescue UsageError => error # of the environment, it names both ways to set it
        raise unless backend

        raise UsageError, error.message.sub(/\Abackend(?=:)/, "--backend")
      end

      # @param value [String] of the option
      # @return [Float] seconds
      # @raise [UsageError] unless it is a decimal number from 0 to 999999999
      def drain_timeout(value)
        return Float(value) if value.b.match?(/\A\d{1,9}(\.\d+)?\z/)

        raise UsageError, "--drain-timeout: must be seconds from 0 to 999999999, got: " \
                          "#{value.inspect}"
      end

      # Takes the options out of a command's words.
      #
      # @param argv [Array<String>]
      # @yieldparam on [OptionParser] to name the options
      # @return [Array<String>] the other words
      # @raise [UsageError] for an option that is unknown or lacks its argument, or a bad argument
      def parse(argv, &define)
        require "optparse"
        OptionParser.new(&define).parse(argv)
      rescue OptionParser::ParseError => error
        raise UsageError, misused(error)
      end

      # @param option [String] that named the folder, for the message
      # @param path [String] of the folder; it is created if it does not exist
      # @return [String] the path
      # @raise [UsageError, Failure]
      def folder(option, path)
        raise UsageError, "#{option}: must name a folder, got: #{path.inspect}" if path.empty?

        require "fileutils"
        FileUtils.mkdir_p(path)
        File.writable?(path) ? path : raise(Errno::EACCES, path)
      rescue SystemCallError => error
        raise Failure, "#{option}: cannot use this folder: #{error.message}: name another one"
      end

      # @param path [String] of something that is not a file
      # @return [String] what to say about it
      def no_file(path)
        folder = ", which is a folder" if File.directory?(path)
        "no such file: #{path.empty? ? '""' : path}#{folder}"
      end

      # Prints to stderr, also under ruby -W0, where `warn` prints nothing.
      #
      # @param text [String]
      # @return [nil]
      def tell(text) = $stderr.puts(text) # rubocop:disable Style/StderrPuts

      private

      def choose(name, rest)
        case name
        when nil then call("help", []) && USAGE_STATUS
        when "-h", "--help" then call("help", rest)
        when "-v", "--version" then puts(VERSION) || 0
        else call(name, rest)
        end
      end

      def call(name, argv)
        found = command(name)
        return call("help", [name]) if !SCRIPTS.include?(name) && (argv & %w[-h --help]).any?

        status = found.run(argv)
        $stdout.flush unless OWN_REPORTS.include?(name) # Ruby's exit is silent about a full disk
        status.is_a?(Integer) ? status : 0
      end

      # Ruby takes words for text in the locale's encoding: in the C locale a word with an umlaut
      # matches no pattern. Files are named in UTF-8 nearly everywhere.
      def readable(words)
        words.map do |word|
          next word if word.valid_encoding? && word.encoding != Encoding::BINARY

          text = word.dup.force_encoding(Encoding::UTF_8)
          text.valid_encoding? ? text : raise(UsageError, "not valid UTF-8: #{text.inspect}")
        end
      end

      # An environment variable that is not valid raises ArgumentError.
      def load_or_complain
        yield
      rescue ArgumentError => error
        raise UsageError, error.message
      end

      # An argument that OptionParser itself refuses is one that is no number.
      def misused(error)
        return error.message unless error.is_a?(OptionParser::InvalidArgument)

        "#{error.message.strip} (must be a number)"
      end

      def unknown(name)
        require "did_you_mean"
        meant = DidYouMean::SpellChecker.new(dictionary: COMMANDS.keys).correct(name.scrub).first
        "unknown command #{name.inspect}#{", did you mean: nb #{meant}" if meant}"
      end

      def fail_with(name, message)
        tell "nb #{name}: #{plain(message)}"
        1
      end

      def complain(name, error)
        tell "nb#{" #{name}" if COMMANDS.key?(name)}: #{plain(error.message)}"
        tell "See: nb help#{" #{name}" if COMMANDS.key?(name) && name != "help"}"
        USAGE_STATUS
      end

      # Without the name of Ruby's function: "Is a directory @ rb_sysopen - x".
      def plain(message)
        message.b.gsub(/ @ \w+ - (?:fd:\d+ )?/, ": ").sub(/<STDOUT>\z/, "standard output")
          .force_encoding(message.encoding)
      end
    end
  end
end
