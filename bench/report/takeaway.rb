# frozen_string_literal: true

module Bench
  module Report
    # One table in a sentence or two, from its samples alone: against whom the subject is better or
    # worse, and what became of the published numbers.
    class Takeaway
      # Verdicts in the order of reading.
      WORDS = { faster: "better than", same: "the same as", slower: "worse than",
                inconclusive: "undecided against" }.freeze
      private_constant :WORDS

      # @param result [Result]
      def initialize(result)
        @result = result
        @grids = result.grids.select(&:headline?)
      end

      # @return [String] empty where nothing is compared and nothing was published
      def to_s = [verdicts, change, *doubts].compact.join(" ")

      private

      def verdicts
        cells = @grids.flat_map { |grid| cells(grid) }
        return if cells.empty?

        said = WORDS.filter_map do |verdict, words|
          names = cells.select { |cell| cell[:verdict] == verdict }
          "#{words} #{list(names, cells)}" if names.any?
        end
        return "No verdict: fewer than #{Estimate::FEWEST} pairs." if said.empty?

        further = said.drop(1).map { |text| text[0].upcase + text[1..] }
        "#{cells.first[:subject]}: #{[said.first, *further].join(". ")}."
      end

      # Every comparison of a headline that has a verdict or waits for one.
      def cells(grid)
        grid.comparisons.reject(&:again).flat_map do |versus|
          grid.headline.filter_map do |index|
            verdict = versus.verdicts[index] or next
            { subject: versus.subject, rival: versus.label, verdict: verdict,
              where: place(grid, index) }
          end
        end
      end

      def place(grid, index)
        return grid.columns[index] if grid == @grids.first

        "#{grid.id.split.drop(1).join(" ")} #{grid.columns[index]}"
      end

      # A rival's name says enough where it holds in all columns.
      def list(cells, all)
        cells.group_by { |cell| cell[:rival] }.map do |rival, found|
          whole = found.size == all.count { |cell| cell[:rival] == rival }
          whole ? rival : "#{rival} (#{found.map { |cell| quoted(cell[:where]) }.join(", ")})"
        end.join("; ")
      end

      # A column's name may have a comma of its own.
      def quoted(where) = where.include?(", ") ? "“#{where}”" : where

      # The last column for which both numbers are there.
      def change
        grid = @grids.first or return
        ours = row(grid, :measured, subject(grid)) or return
        theirs = row(grid, :published, ours.key) or return
        index = grid.columns.each_index.select { |one| both?(ours, theirs, one) }.last or return
        then_, now = [theirs, ours].map { |row| Format.number(row.figures[index].value) }
        "#{theirs.label}: #{then_} #{grid.unit}; now #{now} (#{grid.columns[index]})."
      end

      def subject(grid)
        grid.comparisons.first&.subject || Bench.runtimes.fetch("nb").label
      end

      def row(grid, kind, name)
        grid.rows.find { |row| row.kind == kind && [row.label, row.key].include?(name) }
      end

      def both?(*rows, index) = rows.all? { |row| row.figures[index]&.value }

      # How undisturbed the samples were, where somebody looked.
      def doubts
        [("Samples taken again, because other programs used more than 5 % of a core: " \
          "#{@result.repeats}." if @result.repeats.positive?),
         ("Samples kept although other programs computed" \
          "#{" (they make no pair)" unless @result.busy?}: " \
          "#{@result.crowded.size} of #{@result.runs.size}." if @result.crowded.any?)]
      end
    end
  end
end
