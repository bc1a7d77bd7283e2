# frozen_string_literal: true

require "erb"
require "fileutils"
require_relative "bench"

module NB
  module CLI
    # A page of charts in the style of the bench's pages, without network or scripts. A subclass has
    # `title`, `lead`, `content` and `footer`, all HTML.
    class ChartPage
      # The widths of the two versions of each chart, in pixels: the style sheet shows the one that
      # fits.
      WIDTHS = [720, 340].freeze
      private_constant :WIDTHS

      # @param path [String] missing folders are created
      # @return [String] path
      # @raise [UsageError] in an installed gem, which has no charts
      # @scheduling may wait
      def write(path)
        Bench.load_tree
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, html)
        path
      end

      private

      def html
        style = File.read(File.join(::Bench::HOME, "report", "page.css"))
        <<~HTML
          <!DOCTYPE html>
          <html lang="en"><head><meta charset="utf-8">
          <meta name="viewport" content="width=device-width, initial-scale=1">
          <meta name="color-scheme" content="light dark">
          <title>#{title}</title><style>#{style}</style></head>
          <body><header><h1>#{title}</h1>
          <p class="lead">#{lead}</p></header><main>#{content}</main>
          <footer>#{footer}</footer></body></html>
        HTML
      end

      # @param grid [::Bench::Grid]
      # @param chart [Class] of ::Bench::Report
      def figure(grid, chart)
        wide, small = WIDTHS.map { |width| chart.new(grid, width: width).svg }
        "<figure><figcaption><b>#{escape(grid.title)}</b><span>#{escape(grid.unit)}, " \
          "#{grid.better} is better</span></figcaption><div class=\"wide\">#{wide}</div>" \
          "<div class=\"small\">#{small}</div></figure>"
      end

      # @param heading [Array(String, String, Symbol)] title, unit, and whether higher or lower is
      #   better
      # @param rows [Array<Array(String, String, Array)>] label, colour, values by column or nil
      # @param columns [Array<String, Numeric>]
      # @param more [Hash] for ::Bench::Grid
      # @return [::Bench::Grid]
      def grid(heading, rows, columns, **more) # rubocop:disable Metrics/ParameterLists
        title, unit, better = heading
        ::Bench::Grid.new(id: title, title: title, unit: unit, better: better,
                          rows: rows.map { |row| grid_row(*row) }, columns: columns.map(&:to_s),
                          positions: columns.map { |value| value if value.is_a?(Numeric) },
                          column_title: "", comparisons: [], words: {}, **more)
      end

      def grid_row(label, key, values)
        figures = values.map { |value| value && ::Bench::Figure.of(value) }
        ::Bench::Grid::Row.new(label: label, key: key, kind: :measured, figures: figures)
      end

      def escape(text) = ERB::Util.html_escape(text)
    end
  end
end
