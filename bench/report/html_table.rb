# frozen_string_literal: true

require "erb"

module Bench
  module Report
    # One grid as HTML tables: the numbers, and the comparison with its verdicts.
    class HtmlTable
      # @param grid [Grid]
      def initialize(grid)
        @grid = grid
      end

      # @return [String]
      def figures
        rows = @grid.rows.map do |row|
          cells = row.figures.each_with_index.map { |figure, index| cell(row, figure, index) }
          "<tr class=\"#{row.kind} k-#{escape(row.key)}\"><th scope=\"row\">#{escape(row.label)}" \
            "</th>#{cells.join}</tr>"
        end
        table(rows, @grid.column_title)
      end

      # @return [String] empty when nothing is compared
      def comparisons
        present = @grid.compared
        return "" if present.empty?

        rows = present.map do |versus|
          label = versus.again ? "itself (noise floor)" : versus.label
          cells = versus.estimates.zip(versus.verdicts).map { |pair| versus_cell(versus, *pair) }
          "<tr class=\"#{"again" if versus.again}\"><th scope=\"row\">#{escape(label)}</th>" \
            "#{cells.join}</tr>"
        end
        table(rows, "#{present.first.subject} against")
      end

      private

      def table(rows, corner)
        heads = @grid.columns.map { |column| "<th scope=\"col\">#{escape(column)}</th>" }
        "<div class=\"scroll\"><table><thead><tr><th>#{escape(corner)}</th>#{heads.join}</tr>" \
          "</thead><tbody>\n#{rows.join("\n")}\n</tbody></table></div>\n"
      end

      def cell(row, figure, index)
        return "<td>#{Format::NOTHING}</td>" unless figure

        mark = figure.notes.any? ? "<sup title=\"#{escape(figure.notes.join("; "))}\">*</sup>" : ""
        best = row.kind == :measured && figure.value == best(index) ? " class=\"best\"" : ""
        "<td#{best}>#{Format.number(figure.value)}#{mark}#{small(row, figure)}</td>"
      end

      def small(row, figure)
        return "" unless row.kind == :measured

        Format.small_print(figure).map do |text|
          "<small#{" class=\"bad\"" if text.include?("error")}>#{escape(text)}</small>"
        end.join
      end

      def best(index)
        @best ||= {}
        @best[index] ||= begin
          rows = @grid.rows.select { |row| row.kind == :measured && !yardstick?(row) }
          figures = rows.filter_map { |row| row.figures[index] }
          values = figures.select { |figure| figure.errors.to_i.zero? }.filter_map(&:value)
          values.size > 1 && (@grid.better == :higher ? values.max : values.min)
        end
      end

      def yardstick?(row) = Bench.runtimes[row.key]&.yardstick?

      def versus_cell(versus, estimate, verdict)
        return "<td>#{Format::NOTHING}</td>" unless estimate

        word = versus.again ? "noise" : @grid.word(verdict)
        "<td class=\"#{versus.again ? "" : verdict}\">#{Format.ratio(estimate)}" \
          "<small>#{Format.interval(estimate)}</small><small>#{word}</small></td>"
      end

      def escape(text) = ERB::Util.html_escape(text.to_s)
    end
  end
end
