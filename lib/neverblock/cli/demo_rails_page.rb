# frozen_string_literal: true

require_relative "chart_page"

module NB
  module CLI
    # The page that `nb demo rails` writes: the course of the race and its costs, in the style of
    # the bench's pages.
    class DemoRailsPage < ChartPage
      # The maximum number of points in the line chart.
      COLUMNS = 24
      # The names of the numbers, their units, and how to compute them from a result.
      FIGURES = [
        ["Pages per second", "pages/s", :higher, ->(one) { one["answers"] / one["elapsed"] }],
        ["Half of the customers waited less than", "s", :lower, ->(one) { one["p50_ms"] / 1000 }],
        ["99 of 100 customers waited less than", "s", :lower, ->(one) { one["p99_ms"] / 1000 }],
        ["Memory of the process", "MB", :lower, ->(one) { one["memory_mb"] }]
      ].freeze
      KEYS = { "NeverBlock" => "nb", "Puma, 5 threads" => "puma5" }.freeze
      private_constant :COLUMNS, :FIGURES, :KEYS

      # @param results [Hash{String => Hash}] from {DemoRace#run}
      # @param pages [Integer]
      # @param clients [Integer]
      # @scheduling never waits
      def initialize(results, pages:, clients:)
        super()
        @results = results
        @pages = pages
        @clients = clients
      end

      private

      def title = "A Rails shop, in threads and in fibers"

      def content
        "<section>#{figure(race, ::Bench::Report::Lines)}" \
          "#{FIGURES.map { |values| figure(number(values), ::Bench::Report::Bars) }.join}</section>"
      end

      def footer
        "#{escape(RUBY_DESCRIPTION)}. Both servers ran at the same time, one process each. This " \
          "is a single run: nb bench repeats its samples, and shows how they spread."
      end

      def lead
        slow, fast = @results.values.map { |one| one["elapsed"] }
        "#{@clients} customers ask for #{@pages} pages. Each page asks its database and two " \
          "services that take 80 and 120 ms. Nothing in the shop knows which server it runs " \
          "under: <b>#{format("%.1f", slow / fast)} times as many pages</b>, because a process " \
          "that waits for one customer serves the others."
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

      def number(values)
        *heading, number = values
        build(heading, [""]) { |result| [number.call(result)] }
      end

      def build(heading, columns)
        rows = @results.map { |name, result| [name, KEYS.fetch(name), yield(result)] }
        grid(heading, rows, columns, chart: { kind: :lines, scale: :linear, spread: :linear })
          .tap { |grid| grid.column_title = "seconds" }
      end
    end
  end
end
