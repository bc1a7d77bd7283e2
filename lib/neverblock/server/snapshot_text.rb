# frozen_string_literal: true

module NB
  class Server
    # A snapshot as text: requests and fibers with their backtraces, pools, stalls. `nb dump` prints
    # it, and the page offers it for download.
    #
    # @api private
    module SnapshotText
      class << self
        # @param one [Hash{Symbol=>Object}] a process's part of `/snapshot`
        # @return [Array<String>] lines, which may contain control characters
        def process(one)
          name = "process #{one[:pid]}#{", worker #{one[:index]}" if one[:index]}"
          return ["#{name} does not answer: it is stopped, or C code in it keeps the GVL, which " \
                  "the watchdog reports on its stderr"] if one[:silent]

          [head(name, one), *one[:requests].flat_map { |request| describe_request(request) },
           *others(one).flat_map { |fiber| describe(fiber) }, *left_out(one),
           *one[:pools].flat_map { |pool| describe_pool(pool) },
           *one[:stalls].map { |stall| describe_stall(stall) }]
        end

        private

        def head(name, one)
          counts = one[:loop]&.fetch(:fibers) || {}
          stands = one.dig(:loop, :stands_seconds).to_f
          states = counts.map { |state, count| "#{count} #{state}" }.join(", ")
          "#{name}: #{counts.empty? ? "no loop runs" : states}" \
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
