# frozen_string_literal: true

require_relative "../server/control"

module NB
  module CLI
    # `nb stats`: what a server that was started with a control socket says of itself.
    module Stats
      # One line for the list of commands.
      SUMMARY = "print the counters of a running server as JSON"
      # What `nb help stats` prints.
      USAGE = <<~TEXT
        usage: nb stats ADDRESS [stats | requests | ready]

        Asks the control socket of `nb serve --control ADDRESS`, such as unix:///run/app.sock.
      TEXT

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        def run(argv)
          address, what = argv
          raise UsageError, "which control socket?" unless address

          puts Server::Control.ask(address, "/#{what || "stats"}")
          0
        rescue SystemCallError => error
          raise UsageError, "#{address}: #{error.message}"
        end
      end
    end
  end
end
