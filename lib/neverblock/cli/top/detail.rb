# frozen_string_literal: true

require_relative "words"

module NB
  module CLI
    module Top
      # Everything that is known about one row.
      #
      # @api private
      class Detail
        # @param list [Lists::List]
        # @param row [Hash] of it
        def initialize(list, row)
          @list = list
          @row = row
        end

        # @return [Array<String>]
        def lines
          [head, *__send__(@list.name)].compact.map { |line| Printable.text(line) }
        end

        private

        def head
          case @list.name
          when "requests" then "#{@row[:method]} #{@row[:path]}"
          when "fibers" then "fiber #{@row[:name] || @row[:id]}, #{@row[:state]}"
          when "pools" then "pool #{@row[:name]} (#{@row[:kind]}), #{@row[:in_use]} of " \
                            "#{@row[:size] || "unlimited"} in use"
          when "workers" then "process #{@row[:process]}"
          else @row[:place]
          end
        end

        def requests
          ["running for #{Words.time(@row[:age_seconds])} in process #{@row[:process]}", wait,
           *backtrace]
        end

        def fibers = [wait, *backtrace]

        def wait
          "waits #{Words.time(@row[:waited_seconds])} for #{@row[:waits_for]}" if @row[:waits_for]
        end

        def backtrace = ["", *@row[:backtrace].to_a.map { |line| "  #{line}" }]

        def pools
          ["", "holders, each for at least:", *users(:holders, :held_seconds),
           "", "waiters:", *users(:waiters, :waited_seconds)]
        end

        def users(who, seconds)
          rows = @row[who].to_a
          return ["  nobody, or it is not known"] if rows.empty?

          rows.map do |one|
            ["  #{Words.time(one[seconds]).rjust(7)}", one[:name], one[:place]].compact.join("  ")
          end
        end

        # The numbers, without the lists.
        def workers
          @row.reject { |_, value| value.is_a?(Array) || value.nil? }
            .map { |name, value| "  #{name}: #{value.is_a?(Hash) ? pairs(value) : value}" }
        end

        def pairs(hash)
          hash.map { |name, value| "#{name} #{value.is_a?(Hash) ? "(#{pairs(value)})" : value}" }
              .join(", ")
        end

        def stalls
          ["in #{@row[:method] || "Ruby code"}: #{@row[:doing]}",
           "#{@row[:count]} times, at most #{Words.time(@row[:longest_ms] / 1000.0)}, last " \
           "#{Words.time(@row[:last_seconds_ago])} ago"]
        end
      end
    end
  end
end
