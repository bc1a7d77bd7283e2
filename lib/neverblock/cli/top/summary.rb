# frozen_string_literal: true

require_relative "rates"
require_relative "words"

module NB
  module CLI
    module Top
      # The lines above the lists: the server and its numbers, as many as fit.
      #
      # @api private
      class Summary
        # @param sample [Feed::Sample]
        # @param address [String]
        def initialize(sample, address)
          @snapshot = sample.snapshot
          @processes = Rates.processes(@snapshot)
          @rates = sample.rates.to_h
          @address = address
        end

        # @param width [Integer] of a line
        # @param most [Integer] the maximum number of lines
        # @return [Array<String>]
        def lines(width, most)
          [title(width), *packed(width)].first(most)
        end

        # @return [String] in one or two words
        def self.condition(process)
          return "silent" if process[:silent]
          return "leaving" if process[:leaving]
          return "draining" if process[:draining]

          process[:ready] ? "ready" : "not ready"
        end

        private

        def title(width)
          left = Printable.text("nb top  #{@address}")
          right = "NeverBlock #{@snapshot[:version]}, Ruby #{@snapshot[:ruby]}, up " \
                  "#{Words.time(@snapshot[:uptime_seconds])}"
          right = Printable.text(right)
          room = width - left.size
          room > right.size ? left + right.rjust(room) : Printable.cut(left, width)
        end

        def packed(width)
          items.map { |item| Printable.text(item) }.each_with_object([]) do |item, lines|
            fits = lines.any? && lines.last.size + 2 + item.size <= width
            fits ? lines.last << "  " << item : lines << +Printable.cut(item, width)
          end
        end

        # The most important first.
        def items
          [state, *stands, "requests #{per_second(:requests)}", "5xx #{per_second(:failed)}",
           "running #{Words.count(@snapshot[:running])}",
           "queued #{Words.count(@snapshot[:queued])}",
           "CPU #{Words.percent(@rates[:cpu])}", "memory #{Words.bytes(memory)}",
           "lag #{Words.time(@rates[:lag_seconds])}",
           "connections #{Words.count(@snapshot[:connections])}",
           "GC #{Words.percent(@rates[:gc])}",
           *fibers, "turns #{per_second(:turns)}", "switches #{per_second(:switches)}"]
        end

        def state
          workers = @snapshot[:workers].to_a
          name = "pid #{@snapshot[:pid]} #{Summary.condition(@snapshot)}"
          ready = workers.count { |one| one[:ready] }
          workers.empty? ? name : "#{name}, #{ready} of #{workers.size} workers"
        end

        # A loop that stands still: its process, and for how long.
        def stands
          @processes.filter_map do |one|
            seconds = one.dig(:loop, :stands_seconds).to_f
            "LOOP OF #{one[:pid]} STANDS #{Words.time(seconds)}" if seconds >= 0.1
          end
        end

        def per_second(name) = @rates[name] ? "#{Words.count(@rates[name])}/s" : "-"
        def memory = @processes.sum { |one| one[:memory_bytes].to_i }

        def fibers
          counts = @processes.filter_map { |one| one.dig(:loop, :fibers) }
                             .reduce({}) { |all, one| all.merge(one) { |_, a, b| a + b } }
          counts.map { |name, count| "#{name} #{Words.count(count)}" if name != :running }.compact
        end
      end
    end
  end
end
