# frozen_string_literal: true

module Bench
  module Gate
    # One row: what it costs in this tree and in the reference, pair by pair.
    class Comparison
      # @return [Row]
      attr_reader :row
      # @return [String, nil] why it could not be measured, and where: :tree or :reference
      attr_reader :failure, :failed_in

      # @param row [Row]
      # @param limit [Float] the share by which the row may be slower: 0.05
      def initialize(row, limit: 0.05)
        @row = row
        @limit = limit
        @pairs = []
        @ratios = []
      end

      # One pair of processes.
      #
      # @param tree [Array<Float>] CPU seconds of an operation in each turn
      # @param reference [Array<Float>] in the turns beside them
      # @return [void]
      def add(tree, reference)
        @pairs << [tree, reference].map { |costs| Statistics.median(costs) }
        @ratios << Statistics.median(tree.zip(reference).map { |one, other| one / other })
      end

      # @param where [Symbol] :tree or :reference
      # @param reason [String]
      # @return [void]
      def fail(where, reason)
        @failed_in = where
        @failure = reason
      end

      # @return [Estimate, nil] above 1.0 this tree is faster
      def estimate = Estimate.from(@ratios.map { |ratio| [ratio, 1.0] }, better: :lower)

      # @return [Array(Float, Float), nil] medians: this tree's and the reference's cost
      def costs
        @pairs.transpose.map { |values| Statistics.median(values) } if @pairs.any?
      end

      # :slower needs a ratio beyond the limit and an interval that excludes 1, once all pairs
      # are there. Before, the whole interval must lie on one side of the limit.
      #
      # @param last [Boolean] whether there will be no more pairs
      # @return [Symbol] :ok, :slower, :open; :broken: this tree fails; :new: only the reference
      def verdict(last: true)
        return failed_in == :tree ? :broken : :new if failure

        found = estimate
        return :open unless found&.enough?
        return :ok if found.low > 1 - @limit
        return :slower if found.high < 1 - @limit
        return :open unless last

        found.ratio < 1 - @limit && found.high < 1 ? :slower : :ok
      end
    end
  end
end
