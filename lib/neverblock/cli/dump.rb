# frozen_string_literal: true

require_relative "../server/snapshot_text"
require_relative "printable"
require_relative "top/feed"
require_relative "dump_signal"

module NB
  module CLI
    # `nb dump`: prints every fiber of another process, what it waits for and where.
    module Dump
      # One line for the list of commands.
      SUMMARY = "print every fiber of a running process, and what it waits for"
      # What `nb help dump` prints.
      USAGE = <<~TEXT
        usage: nb dump ADDRESS
               nb dump PID

        ADDRESS is the control socket of a server, such as unix:///run/app.control of
        `nb serve --control unix:///run/app.control`. Prints the server's requests and fibers with
        their backtraces, its pools, and what has stopped its loops. This also works while a loop
        stands still in Ruby code. While C code keeps the GVL, the process cannot answer: then the
        watchdog's report on the server's stderr names the line.

        PID is a process without a control socket. `nb dump` sends it SIGPWR. Then `nb run` prints its
        fibers, and `nb serve` its requests, on its own stderr; if that is a file, `nb dump` shows what
        is written there. It sends nothing to a process that does not handle SIGPWR: let such a
        program call NB.dump_on("PWR").
      TEXT
      # The maximum: more fibers than a process has, and longer backtraces than people read.
      DETAIL = "fibers=100000&requests=100000&frames=200"
      # Seconds to wait for the answer: a thousand backtraces take 0.1 s.
      PATIENCE = 15
      private_constant :DETAIL, :PATIENCE

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError, Failure]
        def run(argv)
          target, *rest = argv
          raise UsageError, "needs the address of a control socket, or a pid" unless target
          raise UsageError, "takes one address or pid, got: #{argv.join(" ")}" if rest.any?
          return DumpSignal.new(Integer(target, 10)).call if target.match?(/\A\d{1,9}\z/)

          puts text(Top::Feed.snapshot(target, DETAIL, within: PATIENCE))
          0
        rescue ArgumentError => error
          raise UsageError, "#{error.message} (or a pid)"
        end

        # @param snapshot [Hash] of `/snapshot`
        # @return [String]
        def text(snapshot)
          Top::Rates.processes(snapshot).flat_map { |one| Server::SnapshotText.process(one) }
            .map { |line| Printable.text(line) }.join("\n")
        end
      end
    end
  end
end
