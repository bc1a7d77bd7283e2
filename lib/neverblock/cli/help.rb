# frozen_string_literal: true

module NB
  module CLI
    # `nb help`: the commands, or how one of them is used.
    module Help
      # One line for the list of commands.
      SUMMARY = "show this list, or how a command is used"
      # What `nb help help` prints.
      USAGE = "usage: nb help [COMMAND]"

      # @param argv [Array<String>] nothing, or a command
      # @return [Integer] exit status
      # @raise [UsageError] for an unknown command
      def self.run(argv)
        raise UsageError, "takes one command, got: #{argv.join(" ")}" if argv.size > 1

        puts argv.empty? ? list : CLI.command(argv.first)::USAGE
        0
      end

      # @return [String] every command with its summary
      def self.list
        width = COMMANDS.keys.map(&:size).max
        rows = COMMANDS.keys.map { |name| "  #{name.ljust(width)}  #{CLI.command(name)::SUMMARY}" }
        ["NeverBlock #{VERSION}: plain blocking Ruby, run as evented I/O.", "",
         "usage: nb COMMAND [arguments]", "", *rows, "",
         "nb help COMMAND explains one of them."].join("\n")
      end
    end
  end
end
