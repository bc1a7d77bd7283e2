# frozen_string_literal: true

module Bench
  # In which order cells are measured.
  #
  # Cells that are compared stand next to each other; each pass goes through them in the opposite
  # direction of the pass before (A B, B A, A B …), so that a machine that gets slower or faster
  # meanwhile treats all alike. The second sample of a cell that is measured twice is at the other
  # end of the row: the noise floor is taken over the longest distance there is.
  module Order
    # @!attribute params [Hash] of the cell
    # @!attribute pass [Integer] from 0; samples of the same pass are a pair
    # @!attribute again [Boolean] the second sample of the same cell in this pass
    Step = Struct.new(:params, :pass, :again, keyword_init: true)

    module_function

    # One pass over cells that are compared.
    #
    # @param table [Table]
    # @param cells [Array<Hash>] of one group, see {Table#groups}
    # @param pass [Integer]
    # @param quick [Boolean]
    # @param again [Boolean] whether the noise floor is measured: not where nothing is compared
    # @return [Array<Step>]
    def pass(table, cells, pass, quick: false, again: true)
      due = cells.select { |cell| pass < table.at_most(cell, quick: quick) }
      row = row(table, due, pass, again: again)
      pass.even? ? row : row.reverse
    end

    # @param table [Table]
    # @param due [Array<Hash>] cells of one group
    # @param pass [Integer]
    # @param again [Boolean]
    # @return [Array<Step>]
    def row(table, due, pass, again:)
      steps = due.map { |cell| Step.new(params: cell, pass: pass, again: false) }
      again = again ? due.select { |cell| table.again?(cell) } : []
      # The repeated cell goes first, its repetition last.
      steps = steps.partition { |step| again.include?(step.params) }.flatten
      steps + again.map { |cell| Step.new(params: cell, pass: pass, again: true) }
    end
  end
end
