# frozen_string_literal: true

module Bench
  module Report
    # Horizontal bars, one group per column of the grid: the form that stays readable on a phone.
    # Measured bars are filled and carry whiskers (lowest to highest sample); published ones are
    # outlined; a limit is a thin line.
    class Bars
      # Below this width labels stand above their bars instead of beside them.
      NARROW = 500
      # One bar with its place.
      Bar = Struct.new(:row, :figure, :column, :top, keyword_init: true)
      private_constant :Bar

      # @param grid [Grid]
      # @param width [Integer] pixels
      def initialize(grid, width:)
        @grid = grid
        @width = width
        @narrow = width < NARROW
        @rows = grid.rows.select { |row| drawn?(row) }
        @left = @narrow ? 4 : label_width
        @right = value_width
      end

      # @return [Svg]
      def svg
        place
        @svg = Svg.new(@width, @height, label: "#{@grid.title} (#{@grid.unit})")
        draw_ticks unless @grid.chart[:scale] == :each
        @headings.each { |top, text| @svg.text(2, top, text, style: "heading") }
        @bars.each { |bar| draw(bar) }
        @svg
      end

      private

      # Derived rows have a unit of their own, unless there is nothing else.
      def drawn?(row)
        return false if row.kind == :derived && @grid.measured?

        row.figures.any? { |figure| figure&.value }
      end

      def place
        @bars = []
        @headings = []
        top = 4
        @grid.columns.each_with_index do |column, index|
          present = @rows.select { |row| row.figures[index]&.value }
          next if present.empty?

          top = head(top, column) if @grid.columns.size > 1
          present.each do |row|
            @bars << Bar.new(row: row, figure: row.figures[index], column: index, top: top)
            top += step
          end
          top += 8
        end
        @bottom = top
        @height = top + (@grid.chart[:scale] == :each ? 2 : 24)
      end

      def head(top, column)
        # "tcp echo" says what it is; "50 ms" needs the axis' name before it.
        text = column.match?(/\A[\d.,]+/) ? "#{@grid.column_title} #{column}" : column
        @headings << [top + 12, text]
        top + 19
      end

      def step = @narrow ? 31 : 19
      def thickness = @narrow ? 10 : 13

      def draw(bar)
        y = bar.top + (@narrow ? 16 : 0)
        label(bar, y)
        style = "k-#{bar.row.key} #{bar.row.kind}"
        zero = scale(bar).at(0)
        tip = scale(bar).at(bar.figure.value)
        @svg.rect([[zero, tip].min, y], width: [(tip - zero).abs, 1].max, height: thickness,
                                        style: "bar #{style}", tip: tip(bar))
        whisker(bar, y + (thickness / 2.0)) if bar.figure.interval?
        value(bar, y, tip)
      end

      def label(bar, y)
        style = bar.row.kind == :measured ? "label" : "label quiet"
        if @narrow
          @svg.text(@left, y - 3, bar.row.label, style: style)
        else
          @svg.text(@left - 8, y + 10, bar.row.label, style: style, anchor: "end")
        end
      end

      def value(bar, y, tip)
        highest = [bar.figure.value, bar.figure.high, 0].compact.max
        x = [scale(bar).at(highest), tip].max + 6
        style = bar.figure.errors.to_i.positive? ? "value wrong" : "value"
        @svg.text(x, y + (@narrow ? 9 : 10), words(bar.figure), style: style)
      end

      def words(figure)
        mark = figure.notes.any? ? "*" : ""
        wrong = figure.errors.to_i.positive? ? " (with errors)" : ""
        Format.number(figure.value) + mark + wrong
      end

      def whisker(bar, y)
        low = scale(bar).at(bar.figure.low)
        high = scale(bar).at(bar.figure.high)
        @svg.line([low, y], [high, y], style: "whisker")
        [low, high].each { |x| @svg.line([x, y - 3], [x, y + 3], style: "whisker") }
      end

      def draw_ticks
        scale = scale(nil)
        ticks = scale.ticks
        ticks = ticks.each_slice(2).map(&:first) if ticks.size * 42 > @width - @left - @right
        ticks.each do |tick|
          x = scale.at(tick)
          @svg.line([x, 4], [x, @bottom], style: "tick")
          @svg.text(x, @bottom + 14, Format.tick(tick), style: "tick-label", anchor: "middle")
        end
      end

      # One scale for all, or one per group.
      def scale(bar)
        each = @grid.chart[:scale] == :each
        (@scales ||= {})[each ? bar.column : nil] ||= begin
          bars = each ? @bars.select { |other| other.column == bar.column } : @bars
          values = bars.flat_map { |other| [other.figure.value, other.figure.high] }.compact
          lows = bars.filter_map { |other| other.figure.low }
          log = @grid.chart[:scale] == :log
          # On a logarithmic scale the smallest bar, too, must have a length.
          lows << (values.min / 2.0) if log
          Scale.for(values + lows, from: @left, to: @width - @right, log: log)
        end
      end

      def tip(bar)
        figure = bar.figure
        text = "#{bar.row.label}: #{Format.number(figure.value)} #{@grid.unit}"
        return text unless figure.interval?

        "#{text} (#{Format.number(figure.low)} to #{Format.number(figure.high)})"
      end

      def label_width
        longest = @rows.map { |row| Svg.text_width(row.label) }.max || 0
        [longest + 14, @width * 0.4].min
      end

      def value_width
        figures = @rows.flat_map(&:figures).compact.select(&:value)
        longest = figures.map { |figure| words(figure).size }.max || 1
        Svg.text_width("0" * (longest + 1)) + 8
      end
    end
  end
end
