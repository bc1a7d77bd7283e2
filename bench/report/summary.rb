# frozen_string_literal: true

module Bench
  module Report
    # All comparisons with others at a glance: how many were won, and each that was lost. Of what
    # was measured more than once, the last counts. Our own runtimes beside each other are left out.
    class Summary
      # Verdicts in the order of reading, and what they are called where units differ.
      WORDS = { faster: "better", same: "same", inconclusive: "inconclusive", slower: "worse",
                errors: "without a verdict, because one side had errors",
                few: "without a verdict, with fewer than #{Estimate::FEWEST} pairs" }.freeze
      # What a ratio means, whichever way the unit of its table points.
      RATIO = "0.5×: half the rate, or twice the time, CPU or memory"

      # @param results [Array<Result>] of each table the oldest first
      def initialize(results)
        @runs = results.flat_map(&:runs)
        @cells = results.map { |result| cells(result) }.reduce({}, :merge).values
      end

      # @return [String, nil] what a reader must know where others worked on the machine
      def crowd
        crowded = @runs.count(&:crowded?)
        return if crowded.zero?

        "Other programs used more than 5 % of a core during #{crowded} of #{@runs.size} samples: " \
          "trust the CPU times and counts of these more than their rates."
      end

      # @return [Boolean] whether anything was compared
      def any? = counts.any?

      # @return [String] such as "Comparisons with others: 41 better, 3 same, 2 worse."
      def line
        parts = WORDS.filter_map { |verdict, word| "#{counts[verdict]} #{word}" if counts[verdict] }
        "Comparisons with others: #{parts.join(", ")}."
      end

      # @return [Array<String>] one line for each comparison that was lost
      def lost
        worse = @cells.select { |verdict, _| verdict == :slower }
        worse.map(&:last).uniq
      end

      private

      def ours = Bench.runtimes.each_value.select(&:ours?).map(&:label)

      def counts
        @counts ||= @cells.map(&:first).tally
      end

      # @return [Hash] what is compared => [verdict, the comparison in words]
      def cells(result)
        result.grids.flat_map { |grid| compared(result, grid) }.to_h
      end

      def compared(result, grid)
        others = grid.comparisons.reject { |versus| versus.again || ours.include?(versus.label) }
        others.flat_map do |versus|
          columns = grid.columns.zip(versus.estimates, versus.verdicts)
          columns.filter_map do |column, ratio, verdict|
            next unless WORDS.key?(verdict)

            words = "#{name(grid)}, #{column}: #{versus.subject} #{Format.ratio(ratio)} of " \
                    "#{versus.label} (#{result.ruby})"
            [[result.table.id, result.ruby, grid.id, column, versus.label], [verdict, words]]
          end
        end
      end

      # The table's name as in the headings of the pages, and the view's.
      def name(grid) = grid.id.sub(/\A\w+/, &:upcase)
    end
  end
end
