# frozen_string_literal: true

require "erb"
require "fileutils"

module NB
  module CLI
    # The page that `nb demo rails` writes: how the race went, and what it took, in the form of the
    # bench's pages.
    class DemoRailsPage
      # Points of the line chart at most.
      COLUMNS = 24
      # Names of the numbers, their units, and how they come out of a result.
      FIGURES = [
        ["Pages per second", "pages/s", :higher, ->(one) { one["answers"] / one["elapsed"] }],
        ["Half of the customers waited less than", "s", :lower, ->(one) { one["p50_ms"] / 1000 }],
        ["99 of 100 customers waited less than", "s", :lower, ->(one) { one["p99_ms"] / 1000 }],
        ["Memory of the process", "MB", :lower, ->(one) { one["memory_mb"] }]
      ].freeze
      KEYS = { "NeverBlock" => "nb", "Puma, 5 threads" => "puma5" }.freeze
      private_constant :COLUMNS, :FIGURES, :KEYS

      # @param results [Hash{String => Hash}] of {DemoRace#run}
      # @param pages [Integer]
      # @param clients [Integer]
      # @scheduling never waits
      def initialize(results, pages:, clients:)
        @results = results
        @pages = pages
        @clients = clients
      end

      # @param path [String]
      # @return [String] path
      # @scheduling may wait
      def write(path)
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
          <title>A Rails shop, in threads and in fibers</title><style>#{style}</style></head>
          <body><header><h1>A Rails shop, in threads and in fibers</h1>
          <p class="lead">#{lead}</p></header><main><section>
          #{figure(race, ::Bench::Report::Lines)}
          #{FIGURES.map { |values| figure(grid(values), ::Bench::Report::Bars) }.join}
          </section></main>
          <footer>#{escape(RUBY_DESCRIPTION)}. Both servers ran at the same time, each one process;
          whiskers and repetitions are the business of nb bench.</footer></body></html>
        HTML
      end

      def lead
        slow, fast = @results.values.map { |one| one["elapsed"] }
        "#{@clients} customers ask for #{@pages} pages. Each page asks its database and two " \
          "services that take 80 and 120 ms. Nothing in the shop knows which server it runs " \
          "under: <b>#{format("%.1f", slow / fast)} times as many pages</b>, because a process " \
          "that waits for one customer serves the others."
      end

      def figure(grid, chart)
        wide, small = [720, 340].map { |width| chart.new(grid, width: width).svg }
        "<figure><figcaption><b>#{escape(grid.title)}</b><span>#{escape(grid.unit)}, " \
          "#{grid.better} is better</span></figcaption><div class=\"wide\">#{wide}</div>" \
          "<div class=\"small\">#{small}</div></figure>"
      end

      # Pages answered, second by second.
      def race
        last = @results.values.map { |one| one["elapsed"] }.max
        step = [0.1, 0.25, 0.5, 1, 2, 5].find { |seconds| last / seconds <= COLUMNS } || 10
        times = Array.new((last / step).ceil + 1) { |index| (index * step).round(2) }
        build(["Pages answered, second by second", "pages", :higher], times) do |result|
          times.map { |time| result["history"].take_while { |at, _| at <= time }.last.last }
        end
      end

      def grid(values)
        *heading, number = values
        build(heading, [""]) { |result| [number.call(result)] }
      end

      def build(heading, columns)
        title, unit, better = heading
        rows = @results.map do |name, result|
          figures = yield(result).map { |value| ::Bench::Figure.of(value) }
          ::Bench::Grid::Row.new(label: name, key: KEYS.fetch(name), kind: :measured,
                                 figures: figures)
        end
        ::Bench::Grid.new(id: title, title: title, unit: unit, better: better, rows: rows,
                          column_title: "seconds", columns: columns.map(&:to_s),
                          positions: columns.map { |value| value if value.is_a?(Numeric) },
                          comparisons: [], words: {},
                          chart: { kind: :lines, scale: :linear, spread: :linear })
      end

      def escape(text) = ERB::Util.html_escape(text)
    end
  end
end
