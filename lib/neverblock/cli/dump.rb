# frozen_string_literal: true

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
          Top::Rates.processes(snapshot).flat_map { |one| process(one) }
            .map { |line| Printable.text(line) }.join("\n")
        end

        private

        def process(one)
          name = "process #{one[:pid]}#{", worker #{one[:index]}" if one[:index]}"
          return ["#{name} does not answer: it is stopped, or C code in it keeps the GVL, which " \
                  "the watchdog reports on its stderr"] if one[:silent]

          [head(name, one), *one[:requests].flat_map { |request| describe_request(request) },
           *others(one).flat_map { |fiber| describe(fiber) }, *left_out(one),
           *one[:pools].flat_map { |pool| describe_pool(pool) },
           *one[:stalls].map { |stall| describe_stall(stall) }]
        end

        def head(name, one)
          counts = one[:loop]&.fetch(:fibers) || {}
          stands = one.dig(:loop, :stands_seconds).to_f
          "#{name}: #{counts.map { |state, count| "#{count} #{state}" }.join(", ")}" \
            "#{format("; its loop has not turned for %.3f s", stands) if stands >= 0.1}"
        end

        # Fibers that are printed with their requests are not printed again.
        def others(one)
          told = one[:requests].to_h { |request| [request[:fiber], true] }
          one[:fibers].reject { |fiber| told[fiber[:id]] }
        end

        def describe_request(request)
          ["#{request[:method]} #{request[:path]}, for #{seconds(request[:age_seconds])}, " \
           "#{wait(request) || "runs or is about to"}", *frames(request)]
        end

        def describe(fiber)
          ["fiber #{fiber[:name] || fiber[:id]} #{wait(fiber) || "is #{fiber[:state]}"}" \
           "#{" (at most #{seconds(fiber[:timeout_seconds])} more)" if fiber[:timeout_seconds]}",
           *frames(fiber)]
        end

        def wait(one)
          "waits #{seconds(one[:waited_seconds])} for #{one[:waits_for]}" if one[:waits_for]
        end

        def frames(one) = one[:backtrace].map { |line| "    #{line}" }

        def left_out(one)
          count = one[:requests_left_out].to_i + one[:fibers_left_out].to_i
          count.zero? ? [] : ["and #{count} more"]
        end

        def describe_pool(pool)
          ["pool #{pool[:name]}: #{pool[:in_use]} of #{pool[:size] || "unlimited"} in use, " \
           "#{pool[:waiting] || "an unknown number"} waiting",
           *pool[:holders].map { |one| user("held at least", one, :held_seconds) },
           *pool[:waiters].map { |one| user("waited for", one, :waited_seconds) }]
        end

        def user(verb, one, key)
          "    #{verb} #{seconds(one[key])} by #{[one[:name], one[:place]].compact.join(" at ")}"
        end

        def describe_stall(stall)
          place = [stall[:place], *("(#{stall[:method]})" if stall[:method])].join(" ")
          "stood still #{stall[:count]} times, at most #{stall[:longest_ms]} ms, last " \
            "#{stall[:last_seconds_ago]} s ago, at #{place}: #{stall[:doing]}"
        end

        def seconds(number) = number ? format("%.3f s", number) : "an unknown time"
      end
    end
  end
end
