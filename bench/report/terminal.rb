# frozen_string_literal: true

require_relative "../../lib/neverblock/cli/terminal"

module Bench
  module Report
    # Tables for a terminal; coloured when it is one.
    class Terminal
      CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 }.freeze
      VERDICTS = { faster: :green, slower: :red, same: :cyan, inconclusive: :yellow,
                   few: :dim, errors: :red }.freeze
      # Characters of a line at least, and in a file.
      NARROW = 60
      FILE = 110
      private_constant :CODES, :VERDICTS, :NARROW, :FILE

      # @param io [IO]
      # @param color [Boolean]
      # @param width [Integer] characters of a line
      def initialize(io = $stdout, color: NB::CLI::Terminal.colors?(io),
                     width: [NB::CLI::Terminal.width(io, unknown: FILE), NARROW].max)
        @io = io
        @color = color
        @width = width
      end

      # @param results [Array<Result>]
      # @return [void]
      def print(results)
        results.each { |result| print_result(result) }
        summary = Summary.new(results)
        return unless summary.any?

        @io.puts paint(summary.line, :bold)
        summary.lost.each { |text| @io.puts paint("  worse: #{text}", :red) }
      end

      # @param grid [Grid]
      # @return [void]
      def print_grid(grid)
        @io.puts paint("#{grid.id}  #{grid.title} (#{grid.unit}, #{grid.better} is better)", :bold)
        table([["", *grid.columns]] + grid.rows.flat_map { |row| lines(row) })
        print_comparisons(grid)
        grid.notes.each { |note| @io.puts paint("  * #{note}", :dim) }
        @io.puts
      end

      private

      def print_result(result)
        table = result.table
        @io.puts paint("#{table.id.upcase}: #{table.title}", :bold, :cyan)
        @io.puts paint("#{table.question}  #{result.ruby}, #{result.at}", :dim)
        table.sources.each { |source| @io.puts paint("Source: #{Report.source(source)}", :dim) }
        @io.puts
        result.grids.each { |grid| print_grid(grid) }
        print_lines(result)
        print_remarks(result)
      end

      def print_lines(result)
        takeaway = Takeaway.new(result).to_s
        @io.puts paint(takeaway, :bold) unless takeaway.empty?
        result.settings.each { |rival, text| @io.puts paint("  #{rival}: #{text}", :dim) }
        @io.puts
      end

      def print_remarks(result)
        result.missing.each { |runtime, reason| @io.puts paint("  no #{runtime}: #{reason}", :dim) }
        result.failures.each { |text| @io.puts paint("  failed: #{text}", :red) }
        result.complaints.each { |text| @io.puts paint("  error: #{text}", :red) }
        @io.puts if (result.missing.keys + result.failures + result.complaints).any?
      end

      # A row, and below it in small print CPU time and errors.
      def lines(row)
        values = row.figures.map { |figure| value(figure) }
        return [[row.label, *values].map { |cell| [cell, :dim] }] unless row.kind == :measured

        small = row.figures.map { |figure| figure ? Format.small_print(figure).join(" ") : "" }
        lines = [[[row.label, :bold], *values]]
        lines << ["", *small.map { |cell| [cell, cell.include?("error") ? :red : :dim] }] if
          small.any? { |cell| !cell.empty? }
        lines
      end

      def value(figure)
        return Format::NOTHING unless figure

        Format.number(figure.value) + (figure.notes.any? ? "*" : "")
      end

      def print_comparisons(grid)
        present = grid.compared
        return if present.empty?

        @io.puts paint("  medians of pairs, with their 95 % intervals:", :dim)
        table([["#{present.first.subject} against", *grid.columns]] +
              present.flat_map { |versus| versus_lines(grid, versus) })
      end

      def versus_lines(grid, versus)
        label = versus.again ? "itself (noise floor)" : versus.label
        cells = versus.estimates.zip(versus.verdicts).map do |estimate, verdict|
          next [Format::NOTHING, ""] unless estimate

          [ratio(grid, estimate, versus.again ? nil : verdict), [Format.interval(estimate), :dim]]
        end
        [[label, *cells.map(&:first)], ["", *cells.map(&:last)]]
      end

      def ratio(grid, estimate, verdict)
        return [Format.ratio(estimate), :dim] unless verdict

        ["#{Format.ratio(estimate)} #{grid.word(verdict)}", VERDICTS.fetch(verdict)]
      end

      # Right-aligned columns; a cell is a String or a String with colours. What does not fit the
      # width follows below, with the first column repeated.
      def table(rows)
        widths = rows.map { |row| row.map { |cell| text(cell).size } }.transpose.map(&:max)
        blocks(widths).each do |columns|
          rows.each { |row| @io.puts "  #{line(row, columns, widths)}".rstrip }
        end
      end

      def line(row, columns, widths)
        [0, *columns].map do |index|
          cell = row[index]
          width = widths[index]
          padded = index.zero? ? text(cell).ljust(width) : text(cell).rjust(width)
          cell.is_a?(Array) ? paint(padded, *cell.drop(1)) : padded
        end.join("  ")
      end

      # @return [Array<Array<Integer>>] columns that stand beside each other
      def blocks(widths)
        first = used = widths[0] + 2
        (1...widths.size).each_with_object([[]]) do |index, blocks|
          if used + widths[index] + 2 > @width && blocks.last.any?
            blocks << []
            used = first
          end
          blocks.last << index
          used += widths[index] + 2
        end
      end

      def text(cell) = cell.is_a?(Array) ? cell.first : cell.to_s

      def paint(text, *styles)
        return text unless @color

        "\e[#{styles.map { |style| CODES.fetch(style) }.join(";")}m#{text}\e[0m"
      end
    end

    # @param source [Hash] see {Table#sources}
    # @return [String] one line
    def self.source(source)
      line = "#{source[:author]}, “#{source[:article]}”, #{source[:year]}"
      source[:setup] ? "#{line} (#{source[:setup]})" : line
    end
  end
end
