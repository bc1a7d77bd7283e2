# frozen_string_literal: true

require_relative "../printable"

module NB
  module CLI
    module Top
      # Formats numbers for reading at a glance.
      #
      # @api private
      module Words
        # The seconds of each unit, the largest first.
        UNITS = {"d" => 86_400, "h" => 3600, "m" => 60}.freeze
        # Each unit of bytes is 1,024 of the one before.
        SIZES = %w[B K M G T].freeze
        private_constant :UNITS, :SIZES

        module_function

        # @param seconds [Numeric, nil]
        # @return [String] of at most 6 characters: 350ms, 1.25s, 12.5s, 3m05s, 2h10m, 3d04h
        def time(seconds)
          return "-" unless seconds
          return "#{(seconds * 1000).round}ms" if seconds < 0.9995
          return format(seconds < 9.995 ? "%.2fs" : "%.1fs", seconds) if seconds < 59.95

          long(seconds.round)
        end

        # @param bytes [Numeric, nil]
        # @return [String] such as 118M
        def bytes(bytes)
          return "-" unless bytes

          power = 0
          power += 1 while bytes >= 1024**(power + 1) && power < SIZES.size - 1
          value = bytes.fdiv(1024**power)
          format(value < 9.95 && power.positive? ? "%.1f%s" : "%.0f%s", value, SIZES[power])
        end

        # @param count [Numeric, nil]
        # @return [String] 1,234,567; with one decimal below 10
        def count(count)
          return "-" unless count
          return format("%.1f", count) if count.is_a?(Float) && count < 9.95

          count.round.to_s.reverse.scan(/\d{1,3}/).join(",").reverse
        end

        # @param share [Float, nil] 1.0 is a whole core
        # @return [String] such as 37%
        def percent(share) = share ? "#{(share * 100).round}%" : "-"

        # A place in the program: the end of the path tells more than its folders.
        #
        # @return [String]
        def place(text)
          path, line, label = text.to_s.match(/\A(.*?):(\d+)(?::in (.*))?\z/m)&.captures
          return Printable.text(text) unless path

          Printable.text("#{path.split("/").last(2).join("/")}:#{line}#{" #{label}" if label}")
        end

        def long(seconds)
          pairs = [*UNITS, ["s", 1]].each_cons(2)
          (one, size), (two, part) = pairs.find { |(_, size), _| seconds >= size }
          format("%d%s%02d%s", seconds / size, one, seconds % size / part, two)
        end
        private_class_method :long
      end
    end
  end
end
