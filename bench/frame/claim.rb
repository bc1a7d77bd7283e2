# frozen_string_literal: true

module Bench
  # A sentence of the articles, and whether it is true today: by samples, or by a reason that stands
  # on another page. See {CLAIMS}.
  class Claim
    # What is said of a claim: does it hold, why, and where is more.
    #
    # @!attribute verdict [Symbol] :holds, :changed or :open
    # @!attribute text [String] the numbers or the reason
    # @!attribute table [Table, nil] whose section has the samples
    # @!attribute page [String, nil] relative to docs/
    Answer = Struct.new(:verdict, :text, :table, :page, keyword_init: true)

    # A claim of one number beside another: subject's against rival's, pair by pair.
    Ratio = Struct.new(:table, :subject, :rival, :over, :metric, :better, :bound,
                       keyword_init: true)
    # A claim of numbers by themselves.
    Amount = Struct.new(:table, :cell, :metric, :unit, :samples, :bound, keyword_init: true) do
      def over = nil
    end
    # A claim that no sample can decide.
    Stated = Struct.new(:verdict, :text, :page)

    # @return [String] id of the row of {ROWS}
    attr_reader :row
    # @return [String] in the article's words
    attr_reader :quote
    # @return [Ratio, Amount, Stated] what decides
    attr_reader :test

    # @param row [String]
    # @param quote [String]
    # @param test [Ratio, Amount, Stated]
    def initialize(row, quote, test)
      @row = row
      @quote = quote
      @test = test
    end

    # @param results [Array<Result>]
    # @return [Answer]
    def answer(results)
      return Answer.new(**@test.to_h) if @test.is_a?(Stated)

      found = results.select { |result| result.table.id == @test.table }
      return judge(found.first.table, Result.main(found)) if found.any?

      Answer.new(verdict: :open, text: "not measured yet", table: Bench.tables.fetch(@test.table))
    end

    private

    # Every column must hold; the claim is over where one is known not to.
    def judge(table, result)
      parts = columns.map { |column| part(table, result, column) }
      verdicts = parts.map(&:first)
      verdict = %i[changed open].find { |one| verdicts.include?(one) } || :holds
      doubts = [*parts.filter_map(&:last).uniq, *("a quick run" if result.quick?)]
      text = "#{who(table)}#{parts.map { |part| part[1] }.join(", ")}; it holds #{bound}"
      text += ". No verdict: #{doubts.join(", ")}" if verdict == :open && doubts.any?
      Answer.new(verdict: verdict, text: text, table: table)
    end

    # What is compared: the values in which the two cells differ.
    def who(table)
      return "" unless @test.is_a?(Ratio)

      axes = table.axes.select { |axis| @test.subject[axis.name] != @test.rival[axis.name] }
      own, other = [@test.subject, @test.rival].map do |cell|
        axes.map { |axis| axis.label(cell[axis.name]) }.join(", ")
      end
      numbers = axes.select { |axis| @test.rival[axis.name].is_a?(Numeric) }.map(&:title)
      "#{own} against #{other}#{" (#{numbers.join(", ")})" if numbers.any?}: "
    end

    def columns
      axis, values = @test.over&.first
      axis ? values.map { |value| { axis => value } } : [{}]
    end

    # @return [Array] verdict, numbers, and why there is no verdict
    def part(table, result, column)
      cells = cells(column)
      where = column.map { |axis, value| " (#{table.axis(axis).label(value)})" }.join
      values = values(result, cells)
      return [:open, "nothing#{where}", reasons(result, cells)] if values.empty?

      range = range(table, cells, values)
      text = "#{words(values, range)}#{where}"
      return [:open, text, "there were errors"] if wrong?(result, cells)
      return [:open, text, few(values, table, cells)] unless range

      [verdict(*range), text, ("the interval has the bound in it" if verdict(*range) == :open)]
    end

    def cells(column)
      own = @test.is_a?(Ratio) ? [@test.subject, @test.rival] : [@test.cell]
      own.map { |cell| cell.merge(column) }
    end

    # A cell without a number may tell why.
    def reasons(result, cells)
      notes = cells.filter_map { |cell| result.figure(cell) }.flat_map(&:notes).uniq
      notes.any? ? notes.join(", ") : "not measured"
    end

    def wrong?(result, cells)
      cells.any? { |cell| result.figure(cell)&.errors.to_i.positive? }
    end

    # @return [Array<Numeric>] ratios of pairs, or the samples
    def values(result, cells)
      return result.ratios(*cells, metric: @test.metric, better: @test.better) if cells.size == 2

      result.numbers(cells.first, @test.metric)
    end

    def verdict(low, high)
      limit = @test.bound.values.first
      low, high = [-high, -low].tap { limit = -limit } if @test.bound.key?(:most)
      return :holds if low >= limit

      high < limit ? :changed : :open
    end

    # @return [Array(Numeric, Numeric), nil] nil with too few numbers
    def range(table, cells, values)
      Statistics.interval(values) || values.minmax if values.size >= needed(table, cells)
    end

    # A table may say that a cell cannot vary, so that few samples tell all.
    def needed(table, cells)
      least = @test.is_a?(Amount) ? @test.samples : Statistics::FEWEST
      [least, *cells.map { |cell| table.at_most(cell) }].min
    end

    def few(values, table, cells)
      kind = @test.is_a?(Ratio) ? "pair" : "sample"
      "#{values.size} #{kind}#{"s" if values.size > 1} of #{needed(table, cells)}"
    end

    def words(values, range)
      ends = range&.map { |one| Report::Format.number(one) }&.uniq
      "#{number(Statistics.median(values))}#{" (#{ends.join("–")})" if ends && ends.size > 1}"
    end

    def number(value)
      "#{Report::Format.number(value)}#{@test.is_a?(Ratio) ? "×" : " #{@test.unit}"}"
    end

    def bound
      kind, limit = @test.bound.first
      kind == :least ? "from #{number(limit)} on" : "up to #{number(limit)}"
    end
  end
end
