# frozen_string_literal: true

module Bench
  # The samples of one table on one Ruby in one series of sessions, and what can be read from them.
  class Result
    # @return [Table]
    attr_reader :table
    # @return [Array<Run>]
    attr_reader :runs
    # @return [Array<Hash>] the session lines of the JSONL: the first, and those that went on
    attr_reader :sessions
    # @return [Hash{String => String}] runtime => why it has no rows
    attr_reader :missing

    # @param table [Table]
    # @param sessions [Array<Hash>] at least one
    # @param runs [Array<Run>]
    # @param missing [Hash]
    def initialize(table, sessions:, runs:, missing: {})
      @table = table
      @sessions = sessions
      @runs = runs
      @missing = missing
      names = table.axes.map(&:name)
      @cells = runs.group_by { |run| run.params.slice(*names) }
      @estimates = {}
    end

    # Everything that was measured into directories.
    #
    # @param directories [Array<String>] the oldest first
    # @return [Array<Result>] in the order of the tables, of each table in that of the directories
    # @raise [Bench::Error] when one of them has nothing
    def self.load(*directories)
      empty = directories.find { |path| journals(path, Bench.tables.values).empty? }
      raise Error, "no results in #{empty}" if empty

      Bench.tables.values.flat_map do |table|
        directories.flat_map { |path| journals(path, [table]).flat_map { |one| from(table, one) } }
      end
    end

    # @param directory [String]
    # @param tables [Array<Table>]
    # @return [Array<Journal>] of those that have samples there
    def self.journals(directory, tables)
      tables.map { |table| Journal.new(directory, table.id) }
            .select { |journal| File.exist?(journal.path) }
    end
    private_class_method :journals

    # @param table [Table]
    # @param journal [Journal]
    # @return [Array<Result>] one per series, those of a Ruby by time
    def self.from(table, journal)
      journal.series.map do |found|
        new(table, sessions: found["sessions"], runs: found["runs"], missing: found["missing"])
      end
    end

    # Of several series on one Ruby the last one; of several Rubies the first.
    #
    # @param results [Array<Result>] of one table
    # @return [Result] the one whose numbers stand in summaries
    def self.main(results)
      results.select { |result| result.ruby == results.first.ruby }.last
    end

    # @return [Hash] the first session line
    def session = sessions.first

    # @return [String] "Ruby 3.4.5 with YJIT"
    def ruby = session.fetch("label")

    # @return [String] when it began, such as "2026-11-21 15:58"
    def at = session.fetch("at")[0, 16].tr("T", " ")

    # @return [Hash{String => String}] rival => how it was set up
    def settings = session.fetch("settings", {})

    # @return [Array<Run>] samples that were kept although other programs computed beside them
    def crowded = runs.select(&:crowded?)

    # @return [Integer] samples that were thrown away and taken again for that reason
    def repeats = runs.sum(&:repeats)

    # @return [Boolean] whether samples were taken whatever other programs did
    def busy? = session.fetch("options").fetch("busy", true)

    # @return [Boolean] whether samples were cut short
    def quick? = session.fetch("options").fetch("quick", false)

    # @return [Array<Grid>] one per view that has numbers
    def grids
      @grids ||= table.views.map { |view| view.grid(self) }.select do |grid|
        grid.measured? || grid.rows.any? { |row| row.kind == :derived }
      end
    end

    # The values of an axis that have samples.
    #
    # @param axis [Axis]
    # @return [Array]
    def values(axis)
      seen = runs.map { |run| run.params[axis.name] }.uniq
      axis.values & seen
    end

    # @param params [Hash]
    # @param metric [String]
    # @return [Figure, nil] nil when the cell was not measured
    def figure(params, metric = "value")
      cell = first(params)
      return if cell.empty?

      numbers = cell.filter_map { |run| run.number(metric) }
      shares = cell.filter_map(&:cpu_share)
      Figure.new(value: numbers.any? ? Statistics.median(numbers) : nil, low: numbers.min,
                 high: numbers.max, cv: Statistics.cv(numbers), count: numbers.size,
                 cpu: shares.any? ? Statistics.median(shares) : nil,
                 errors: cell.sum(&:errors), notes: notes(cell))
    end

    # How many times better a cell is than another, pair by pair: of samples that were taken beside
    # each other, while no other program computed (unless the session allows it).
    #
    # @param subject [Hash] parameters of a cell
    # @param rival [Hash]
    # @param metric [String]
    # @param better [Symbol]
    # @param again [Boolean] true compares the subject with its own second samples
    # @return [Estimate, nil]
    def estimate(subject, rival, metric: "value", better: :higher, again: false)
      @estimates[[subject, rival, metric, better, again]] ||=
        Estimate.from(pairs(subject, rival, metric, again: again), better: better)
    end

    # The same, without the interval.
    #
    # @return [Array<Float>] above 1.0 the subject is better; one per pair
    def ratios(subject, rival, metric: "value", better: :higher)
      pairs(subject, rival, metric).filter_map do |own, other|
        next unless own&.positive? && other&.positive?

        better == :higher ? own.fdiv(other) : other.fdiv(own)
      end
    end

    # @param params [Hash]
    # @param metric [String]
    # @return [Array<Numeric>] of the samples that no other program disturbed
    def numbers(params, metric = "value")
      fit(first(params)).filter_map { |run| run.number(metric) }
    end

    # @param params [Hash]
    # @return [Float, nil] median
    def median(params, metric = "value")
      figure(params, metric)&.value
    end

    # @return [Array<String>] failures with their cells, once each
    def failures
      runs.select(&:failure).map { |run| "#{describe(run.params)}: #{run.failure}" }.uniq
    end

    # @return [Array<String>] first error of each cell that had one
    def complaints
      runs.filter_map do |run|
        error = run.sample["first_error"]
        "#{describe(run.params)}: #{error}" if error
      end.uniq { |text| text[/\A[^:]+/] }
    end

    private

    def pairs(subject, rival, metric, again: false)
      by_turn = fit(again ? second(rival) : first(rival))
                .to_h { |run| [run.turn, run.number(metric)] }
      fit(first(subject)).map { |run| [run.number(metric), by_turn[run.turn]] }
    end

    def first(params) = @cells.fetch(params, []).reject(&:again?)

    # For a comparison.
    def fit(runs) = busy? ? runs : runs.reject(&:crowded?)

    def second(params) = @cells.fetch(params, []).select(&:again?)

    def notes(cell)
      cell.flat_map(&:notes).uniq + cell.filter_map(&:failure).uniq.map { |text| "failed: #{text}" }
    end

    def describe(params)
      table.axes.filter_map { |axis| axis.label(params[axis.name]) if params.key?(axis.name) }
           .join(", ")
    end
  end
end
