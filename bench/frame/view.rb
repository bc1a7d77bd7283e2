# frozen_string_literal: true

module Bench
  # One way to lay out the samples of a table: which axis goes down, which across, which number.
  class View
    # A row that is not one of the row axis.
    Extra = Struct.new(:label, :like, :kind, :block)
    private_constant :Extra

    # @return [String] id, title, unit as printed
    attr_reader :id, :title, :unit
    # @return [Symbol] :higher or :lower
    attr_reader :better
    # @return [String] the number of a sample that is shown: "value" or a key of its metrics
    attr_reader :metric

    # @param table [Table]
    # @param id [String]
    # @param title [String]
    # @param unit [String]
    # @param rows [Symbol] axis that goes down
    # @param columns [Symbol, Hash{String => String}] axis that goes across; or several metrics of
    #   the same cell, with what each is called
    # @param across [String] what such metrics are together
    # @param better [Symbol] :higher or :lower
    # @param metric [String]
    # @param where [Hash] fixed values of the other axes
    # @param compare [String, nil] row that is compared with all other rows
    # @param chart [Symbol] :bars or :lines
    # @param scale [Symbol] of the values: :linear, :log, or :each (every group of bars its own)
    # @param spread [Symbol] of the columns in a line chart: :even or :log
    # @param measured [Boolean] false shows derived and published rows only
    # @param amount [Boolean] the number is an amount (memory, CPU time): less or more, not faster
    # @param cpu [Boolean] whether the CPU time of a sample belongs to this number
    # @param headline [Boolean, Array] whether a summary shows this view, or which of its columns
    def initialize(table, id, title:, unit:, rows:, columns:, better: :higher, metric: "value",
                   where: {}, compare: nil, chart: :bars, scale: :linear, spread: :even,
                   measured: true, amount: false, cpu: metric == "value", headline: false,
                   across: "")
      unless %i[higher lower].include?(better)
        raise ArgumentError, "better: must be :higher or :lower, got: #{better.inspect}"
      end

      @table = table
      @id = id
      @title = title
      @unit = unit
      @down = table.axis(rows)
      @several = columns.is_a?(Hash)
      @across = @several ? metrics(columns, across) : table.axis(columns)
      @better = better
      @metric = metric
      @where = where
      @compare = compare
      @chart = { kind: chart, scale: scale, spread: spread }
      @measured = measured
      @cpu = cpu && !@several
      @headline = headline unless @several
      @words = amount ? { faster: "less", slower: "more" } : {}
      @extra = []
    end

    # Adds a row of the source's own numbers.
    #
    # @param label [String] names the year
    # @param values [Array<Numeric, nil>, Hash] one per value of the column axis, or by value
    # @param like [String] id of our row with the same meaning: drawn in its colour
    # @return [void]
    def published(label, values, like: "published")
      values = @across.values.zip(values).to_h if values.is_a?(Array)
      add(label, like, :published) { |_, column| values[column]&.then { |v| Figure.of(v) } }
    end

    # Adds a row computed from the samples.
    #
    # @param label [String]
    # @param like [String] colour
    # @yieldparam result [Result]
    # @yieldparam column [Object] value of the column axis
    # @yieldreturn [Figure, Numeric, nil]
    # @return [void]
    def derived(label, like: "derived", &block)
      add(label, like, :derived, &block)
    end

    # Adds a row with what no program can exceed.
    #
    # @param label [String]
    # @yieldparam result [Result]
    # @yieldparam column [Object]
    # @yieldreturn [Numeric, nil]
    # @return [void]
    def limit(label, &block)
      add(label, "limit", :limit, &block)
    end

    # @param result [Result]
    # @return [Grid]
    def grid(result)
      columns = @several ? @across.values : result.values(@across)
      Grid.new(id: id, title: title, unit: unit, better: better, column_title: @across.title,
               columns: columns.map { |value| @across.label(value) },
               positions: columns.map { |value| value if value.is_a?(Numeric) },
               rows: measured_rows(result, columns) + extra_rows(result, columns),
               comparisons: comparisons(result, columns), chart: @chart, words: @words,
               headline: headline(columns))
    end

    # What can be said of one cell beside the subject.
    #
    # @param result [Result]
    # @param cell [Hash] parameters of a rival's cell
    # @return [Symbol, nil] see {Estimate#verdict}; nil where a summary compares nothing
    def verdict(result, cell)
      column = cell[@across.name]
      return unless @compare && headline([column]).any? && cell[@down.name] != @compare
      return unless @where.all? { |name, value| cell[name] == value }

      floor = versus(result, [column], @compare, again: true).estimates.first
      versus(result, [column], cell[@down.name], floors: [floor&.spread].compact).verdicts.first
    end

    # @return [String, nil] value of the row axis that is compared with all others
    def subject = @compare

    # @return [Symbol] axis that goes down
    def down = @down.name

    # Parameters of one cell of this view.
    #
    # @param row [Object] value of the row axis
    # @param column [Object] value of the column axis
    # @return [Hash]
    def params(row, column)
      return @where.merge(@down.name => row) if @several

      @where.merge(@down.name => row, @across.name => column)
    end

    private

    def metrics(names, title) = Axis.new(:metric, names.keys, title: title, labels: names)

    # Of a column, where each has its own.
    def metric_of(column) = @several ? column : metric

    def headline(columns)
      return [] unless @headline

      columns.each_index.select { |index| @headline == true || @headline.include?(columns[index]) }
    end

    def add(label, like, kind, &block)
      @extra << Extra.new(label, like, kind, block)
    end

    def measured_rows(result, columns)
      return [] unless @measured

      result.values(@down).map do |value|
        figures = columns.map do |column|
          figure = result.figure(params(value, column), metric_of(column))
          figure.cpu = nil unless @cpu || figure.nil?
          figure
        end
        Grid::Row.new(label: @down.label(value), key: value.to_s, kind: :measured, figures: figures)
      end
    end

    def extra_rows(result, columns)
      rows = @extra.map do |extra|
        figures = columns.map do |column|
          figure = extra.block.call(result, column)
          figure.is_a?(Numeric) ? Figure.of(figure) : figure
        end
        Grid::Row.new(label: extra.label, key: extra.like, kind: extra.kind, figures: figures)
      end
      rows.select { |row| row.figures.any? }
    end

    def comparisons(result, columns)
      return [] unless @compare && result.values(@down).include?(@compare)

      floor = versus(result, columns, @compare, again: true)
      floors = floor.estimates.map { |estimate| estimate ? estimate.spread : 1.0 }
      others = result.values(@down) - [@compare]
      [floor] + others.map { |value| versus(result, columns, value, floors: floors) }
    end

    # A rate with wrong answers in it wins nothing and beats nobody.
    def wrong?(result, row, column)
      result.figure(params(row, column), metric_of(column))&.errors.to_i.positive?
    end

    def versus(result, columns, rival, again: false, floors: [])
      estimates = columns.map do |column|
        result.estimate(params(@compare, column), params(rival, column),
                        metric: metric_of(column), better: better, again: again)
      end
      verdicts = columns.each_index.map do |index|
        wrong = [@compare, rival].any? { |row| wrong?(result, row, columns[index]) }
        estimate = estimates[index]
        wrong && estimate ? :errors : estimate&.verdict(floor: floors.fetch(index, 1.0))
      end
      Grid::Versus.new(label: @down.label(rival), subject: @down.label(@compare), again: again,
                       estimates: estimates, verdicts: verdicts)
    end
  end
end
