# frozen_string_literal: true

require_relative "../report/format"

module Bench
  module Transfers
    # What the tables of {Page} have in common: rows of Markdown, and findings with their verdicts.
    module Verdicts
      private

      # @param heads [Array<String>]
      # @param rows [Array<Array<String>>]
      # @return [String]
      def table(heads, rows)
        widths = ["---", *heads.drop(1).map { "---:" }]
        [heads, widths, *rows].map { |cells| "| #{cells.join(" | ")} |\n" }.join
      end

      # @param summaries [Array<Samples::Summary>]
      # @param then_heading [String]
      # @return [String]
      def findings(summaries, then_heading)
        rows = summaries.map do |one|
          "| #{one.text} | #{one.figures} | #{range(one.ratios)} | **#{one.verdict}** |\n"
        end
        "| #{then_heading} | now, the middle pass | ratio | verdict |\n" \
          "| --- | --- | ---: | --- |\n#{rows.join}"
      end

      def range(ratios)
        return Report::Format::NOTHING if ratios.empty?

        low, median, high = ratios.map { |one| Report::Format.number(one) }
        "#{median} (#{low}–#{high})"
      end

      # @param values [Array<Numeric, nil>]
      # @return [String] their median
      def middle(values)
        known = values.compact
        Report::Format.number(known.any? ? Statistics.median(known) : nil)
      end
    end
  end
end
