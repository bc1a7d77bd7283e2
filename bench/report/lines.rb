# frozen_string_literal: true

module Bench
  module Report
    # A line per row over the columns of the grid. Measured rows are solid with whiskers, published
    # ones dashed with hollow dots, limits dotted.
    class Lines
      LEGEND_STEP = 18
      private_constant :LEGEND_STEP

      # @param grid [Grid]
      # @param width [Integer] pixels
      def initialize(grid, width:)
        @grid = grid
        @width = width
        @rows = grid.rows.reject do |row|
          row.kind == :derived || row.figures.none? { |figure| figure&.value }
        end
        @left = 46
        @right = width - 14
        @top = 12
        @bottom = @top + (width < Bars::NARROW ? 230 : 290)
        @values = Scale.for(all_values, from: @bottom, to: @top,
                                        log: grid.chart[:scale] == :log)
      end

      # @return [Svg]
      def svg
        @svg = Svg.new(@width, @bottom + 44, label: "#{@grid.title} (#{@grid.unit})")
        draw_axes
        # Measured rows last: they lie above the others.
        layers = %i[limit published measured]
        @rows.sort_by { |row| layers.index(row.kind) }.each { |row| draw(row) }
        legend(@bottom + 52)
        @svg
      end

      private

      def all_values
        @rows.flat_map(&:figures).compact.flat_map { |f| [f.value, f.low, f.high] }.compact
      end

      def draw_axes
        @values.ticks.each do |tick|
          y = @values.at(tick)
          @svg.line([@left, y], [@right, y], style: "tick")
          @svg.text(@left - 6, y + 4, Format.tick(tick), style: "tick-label", anchor: "end")
        end
        draw_columns
        @svg.text((@left + @right) / 2.0, @bottom + 34, @grid.column_title, style: "tick-label",
                                                                            anchor: "middle")
      end

      # Labels that would touch the one before are left out; every column keeps its line.
      def draw_columns
        free = 0
        @grid.columns.each_with_index do |label, index|
          @svg.line([x(index), @bottom], [x(index), @bottom + 4], style: "axis")
          half = Svg.text_width(label) / 2
          middle = x(index).clamp(half, @width - half)
          next if middle - half < free

          free = middle + half + 4
          @svg.text(middle, @bottom + 18, label, style: "tick-label", anchor: "middle")
        end
      end

      def draw(row)
        style = "k-#{row.key} #{row.kind}"
        known = row.figures.each_index.select { |index| row.figures[index]&.value }
        points = known.map { |index| [x(index), @values.at(row.figures[index].value)] }
        @svg.polyline(points, style: "line #{style}") if points.size > 1
        known.each { |index| dot(row, index, style) } unless row.kind == :limit
      end

      def dot(row, index, style)
        figure = row.figures[index]
        whisker(x(index), figure, style) if figure.interval?
        tip = "#{row.label}, #{@grid.columns[index]}: #{Format.number(figure.value)} #{@grid.unit}"
        @svg.circle(x(index), @values.at(figure.value), 3.5, style: "dot #{style}", tip: tip)
      end

      def whisker(x, figure, style)
        low = @values.at(figure.low)
        high = @values.at(figure.high)
        @svg.line([x, low], [x, high], style: "whisker #{style}")
        [low, high].each { |y| @svg.line([x - 3, y], [x + 3, y], style: "whisker #{style}") }
      end

      def x(index)
        @places ||= begin
          log = @grid.chart[:spread] == :log && @grid.positions.all? { |place| place&.positive? }
          values = log ? @grid.positions : (0...@grid.columns.size).to_a
          scale = PlainScale.new(values, from: @left + 14, to: @right - 14, log: log)
          values.map { |value| scale.at(value) }
        end
        @places.fetch(index)
      end

      def legend(top)
        x = 4
        @rows.each do |row|
          width = 30 + Svg.text_width(row.label) + 12
          if x > 4 && x + width > @width
            x = 4
            top += LEGEND_STEP
          end
          sample(row, x, top)
          x += width
        end
        @svg.height = top + 14
      end

      def sample(row, x, top)
        style = "k-#{row.key} #{row.kind}"
        @svg.line([x, top], [x + 22, top], style: "line #{style}")
        @svg.circle(x + 11, top, 3.5, style: "dot #{style}") unless row.kind == :limit
        @svg.text(x + 28, top + 4, row.label, style: "label")
      end
    end
  end
end
