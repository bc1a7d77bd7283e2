# frozen_string_literal: true

require "json"

module NB
  class Page
    # A snapshot as text, to be kept and sent: what the page's button downloads.
    #
    # @api private
    module Story
      # What is asked for.
      DETAIL = "fibers=1000&requests=1000&frames=60"

      class << self
        # @param json [String]
        # @return [String]
        def text(json)
          snapshot = JSON.parse(json, symbolize_names: true)
          processes = [snapshot, *snapshot[:workers]]
          processes.flat_map { |process| lines(process) }.join("\n") << "\n"
        end

        private

        def lines(process)
          ["NeverBlock, pid #{process[:pid]}, #{head(process)}", *stalls(process),
           *requests(process), *fibers(process), ""]
        end

        def head(process)
          return "silent" if process[:silent]

          time = Time.at(process[:time]).utc.strftime("%FT%TZ")
          ["Ruby #{process[:ruby]}", time, process[:ready] ? "ready" : "not ready",
           "#{process[:memory_bytes] / 1_000_000} MB", JSON.generate(process[:loop])].join(", ")
        end

        def stalls(process)
          process[:stalls].map do |stall|
            "  stood still #{stall[:count]} times at #{stall[:place]}, #{stall[:longest_ms]} ms " \
              "at most, #{stall[:last_seconds_ago]} s ago: it #{stall[:doing]}"
          end
        end

        def requests(process)
          process[:requests].map do |request|
            "  #{request[:method]} #{request[:path]} runs for #{request[:age_seconds]} s " \
              "in fiber #{request[:fiber]}"
          end + left_out(process[:requests_left_out], "requests")
        end

        def fibers(process)
          process[:fibers].flat_map do |fiber|
            waits = " #{fiber[:waited_seconds]} s for #{fiber[:waits_for]}" if fiber[:waits_for]
            ["", "  fiber #{fiber[:id]} #{fiber[:name]} #{fiber[:state]}#{waits}",
             *fiber[:backtrace].map { |frame| "    #{frame}" }]
          end + left_out(process[:fibers_left_out], "fibers")
        end

        def left_out(count, what) = count.to_i.positive? ? ["  and #{count} #{what} more"] : []
      end
    end
  end
end
