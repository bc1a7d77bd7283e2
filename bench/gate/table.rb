# frozen_string_literal: true

module Bench
  module Gate
    # What the gate found, for a terminal or a log.
    class Table
      WORDS = { ok: "ok", slower: "slower", broken: "fails in this tree",
                new: "fails in the reference only" }.freeze
      COLORS = { ok: 32, slower: 31, broken: 31, new: 33 }.freeze
      private_constant :WORDS, :COLORS

      # @param comparisons [Array<Comparison>]
      # @param against [String] what the tree is compared with
      def initialize(comparisons, against)
        @comparisons = comparisons
        @against = against
      end

      # @return [Boolean] whether no row is slower or broken, and one at least was measured
      def passed?
        verdicts = @comparisons.map(&:verdict)
        (verdicts & %i[slower broken]).empty? && verdicts.include?(:ok)
      end

      # @param io [IO]
      # @return [void]
      def print(io)
        colors = NB::CLI::Terminal.colors?(io)
        io.puts "This tree against #{@against}: CPU time of an operation, in µs", ""
        heads = %w[row reference tree speed interval pairs]
        lines = [heads, *@comparisons.map { |one| cells(one) }]
        widths = lines.transpose.map { |column| column.map(&:size).max }
        lines.zip([nil, *@comparisons]).each do |line, comparison|
          io.puts "  #{padded(line, widths)}  #{comparison && word(comparison, colors)}".rstrip
        end
        io.puts "", sentence
      end

      private

      def cells(comparison)
        found = comparison.estimate
        return [comparison.row.id, *[Report::Format::NOTHING] * 5] unless found

        tree, reference = comparison.costs.map { |cost| Report::Format.number(cost * 1e6) }
        [comparison.row.id, reference, tree, percent(found.ratio), interval(found),
         found.pairs.to_s]
      end

      def padded(cells, widths)
        first, *others = cells.zip(widths)
        [first.first.ljust(first.last), *others.map { |cell, width| cell.rjust(width) }].join("  ")
      end

      def interval(estimate)
        return Report::Format::NOTHING unless estimate.enough?

        "#{percent(estimate.low)} to #{percent(estimate.high)}"
      end

      def percent(ratio) = format("%+.1f %%", (ratio - 1) * 100).sub("-", "−")

      def word(comparison, colors)
        verdict = comparison.verdict
        text = [WORDS.fetch(verdict), comparison.failure].compact.join(": ")
        colors ? "\e[#{COLORS.fetch(verdict)}m#{text}\e[0m" : text
      end

      def sentence
        bad = @comparisons.select { |one| %i[slower broken].include?(one.verdict) }
        return "Failed: #{bad.map { |one| one.row.id }.join(", ")}." if bad.any?

        passed? ? "Passed: no row is slower." : "Failed: no row could be measured."
      end
    end
  end
end
