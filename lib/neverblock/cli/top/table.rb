# frozen_string_literal: true

require_relative "../printable"

module NB
  module CLI
    module Top
      # Rows and columns in lines of one width. Columns without a width share what the others leave.
      #
      # @api private
      class Table
        # The minimum width of such a column.
        LEAST = 8
        private_constant :LEAST

        # @param columns [Array<Lists::Column>]
        # @param width [Integer] of a line
        def initialize(columns, width)
          @columns = columns.select { |column| width >= column.from }
          @width = width
          open = @columns.count { |column| column.width.zero? }
          left = width - @columns.sum { |column| column.width + 1 } + 1
          @share = open.zero? ? 0 : [left / open, LEAST].max
        end

        # @param sorted [Lists::Column] gets a mark
        # @param reverse [Boolean] the direction of the mark
        # @return [String]
        def head(sorted, reverse)
          mark = reverse ? "▴" : "▾"
          line { |column| "#{column.title}#{mark if column.equal?(sorted)}" }
        end

        # @param row [Hash]
        # @return [String]
        def row(row) = line { |column| column.show.call(row) }

        private

        def line
          text = @columns.map { |column| cell(column, yield(column)) }.join(" ")
          Printable.cut(text, @width).ljust(@width)
        end

        def cell(column, text)
          width = column.width.zero? ? @share : column.width
          text = Printable.cut(text, width)
          column.right ? text.rjust(width) : text.ljust(width)
        end
      end
    end
  end
end
