# frozen_string_literal: true

require_relative "../server/control"
require_relative "printable"

module NB
  module CLI
    # `nb stats`: prints what a server with a control socket reports about itself.
    module Stats
      # One line for the list of commands.
      SUMMARY = "print the counters of a running server as JSON"
      # What `nb help stats` prints.
      USAGE = <<~TEXT
        usage: nb stats ADDRESS [stats | requests | snapshot | ready | metrics]

        Queries the control socket of `nb serve --control ADDRESS`, such as unix:///run/app.control. The exit
        status is 1 if nothing answers. For `ready` it is also 1 while the server starts or drains.
      TEXT

      # The possible questions.
      WHAT = %w[stats requests snapshot ready metrics].freeze
      # The answer of /ready while the server starts or drains.
      NOT_READY = 503
      private_constant :WHAT, :NOT_READY

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        def run(argv)
          address, what, *rest = argv
          what ||= WHAT.first
          raise UsageError, "needs the address of a control socket" unless address
          raise UsageError, "takes an address and one of #{WHAT.join(", ")}, got: " \
                            "#{argv.join(" ")}" if rest.any? || !WHAT.include?(what)

          status, body = Server::Control.exchange(address, "/#{what}")
          shown = Printable.lines(body)
          raise Failure, "#{address} answers #{status} to #{what}: #{shown}" unless
            [200, NOT_READY].include?(status)

          puts $stdout.tty? ? shown : body
          status == 200 ? 0 : 1
        rescue ArgumentError => error
          raise UsageError, error.message
        rescue SystemCallError, SocketError, IOError => error
          raise Failure, "nothing answers at #{address}: #{error.message}"
        end
      end
    end
  end
end
