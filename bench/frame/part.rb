# frozen_string_literal: true

module Bench
  # One table on one Ruby in a session: its cells, what is done already, what is still undecided.
  class Part
    # @return [Table]
    attr_reader :table
    # @return [RubyTarget]
    attr_reader :ruby
    # @return [Hash{String => String}] runtime => why it cannot be measured
    attr_reader :missing
    # @return [Journal]
    attr_reader :journal

    # @param table [Table]
    # @param ruby [RubyTarget]
    # @param groups [Array<Array<Hash>>] cells that are compared
    # @param journal [Journal]
    # @param missing [Hash]
    # @param quick [Boolean]
    def initialize(table, ruby, groups:, journal:, missing: {}, quick: false)
      @table = table
      @ruby = ruby
      @groups = groups.map { |cells| cells.reject { |cell| missing.key?(table.runtime_of(cell)) } }
      @journal = journal
      @missing = missing
      @quick = quick
      @resumed = false
    end

    # @return [Boolean] whether it goes on where an earlier session ended
    def resumed? = @resumed

    # Goes on where the last session of this Ruby ended, if that measured the same in the same way.
    #
    # @param commit [String] of the source that is measured now
    # @param seconds [Float] of a sample
    # @return [String, nil] why it begins anew
    def resume(commit:, seconds:)
      last = series&.fetch("sessions")&.last
      return "nothing is there yet" unless last

      was = [last["machine"]["commit"], last["options"]["seconds"]]
      @resumed = was == [commit, seconds]
      return if resumed?

      "what is there was measured at commit #{was[0]} with samples of #{was[1]} s, not at " \
        "#{commit} with #{seconds} s"
    end

    # @param passes [Range<Integer>]
    # @param again [Boolean] whether the noise floor is measured
    # @return [Array<Array<Array<Order::Step>>>] for each group of cells its passes, each of them
    #   steps; only what is not done yet
    def blocks(passes, again: true)
      wanted = passes.begin.zero? ? @groups : undecided
      wanted.map do |cells|
        rows = passes.map { |pass| Order.pass(table, cells, pass, quick: @quick, again: again) }
        rows.reject { |row| row.empty? || done?(row) }
      end.reject(&:empty?)
    end

    # @param step [Order::Step]
    # @return [Array] equal for samples that take equally long
    def key(step) = [table.id, ruby.key, step.params]

    # @param params [Hash] of a cell
    # @return [String] which one it is
    def describe(params)
      cell = table.axes.map { |axis| axis.label(params[axis.name]) }.join(", ")
      "#{table.id}: #{cell}"
    end

    private

    # @return [Hash, nil] the last one of this Ruby
    def series
      return unless File.exist?(journal.path)

      journal.series.reverse.find { |one| one["sessions"].last["ruby"] == ruby.key }
    end

    # A pass is done when one session has measured all of it: pairs are taken beside each other.
    def done?(row)
      return false unless resumed?

      wanted = row.map { |step| [step.params, step.again] }
      @turns ||= series["runs"].group_by(&:turn)
      @turns.any? do |(_, pass), runs|
        pass == row.first.pass && (wanted - runs.map { |run| [run.params, run.again?] }).empty?
      end
    end

    # What one more look may decide: cells without a verdict, and those that they are compared with.
    def undecided
      found = series or return []

      result = Result.new(table, sessions: found["sessions"], runs: found["runs"])
      open = table.views.flat_map { |view| open(view, result) }.uniq
      @groups.map { |cells| cells & open }.reject(&:empty?)
    end

    def open(view, result)
      rivals = @groups.flatten.select do |cell|
        %i[inconclusive few].include?(view.verdict(result, cell))
      end
      rivals + rivals.map { |cell| cell.merge(view.down => view.subject) }
    end
  end
end
