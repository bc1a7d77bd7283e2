# frozen_string_literal: true

require_relative "chart_page"
require_relative "rubyhttp_findings"

module NB
  module CLI
    # The charts of the study as a page: all clients per site, which its author wanted, and all
    # sites per client, which his tool could draw. Today's verdicts on his findings follow.
    class RubyhttpPage < ChartPage
      # Title, unit, and how to compute the number from a row.
      FIGURES = [["CPU time per gigabyte", "s/GB", :cpu_per_gb],
                 ["CPU time by clock, as the study has it", "%", :cpu_percent]].freeze
      # The styles of the verdicts.
      STYLES = { holds: "faster", wrong: "slower", same: "inconclusive", unmeasured: "few" }.freeze
      # The colours of the style sheet.
      KEYS = { "stock" => "nb", "curl" => "c" }.freeze
      private_constant :FIGURES, :STYLES, :KEYS

      # @param results [RubyhttpResults]
      # @scheduling never waits
      def initialize(results)
        super()
        @results = results
        @several = results.files.size > 1
      end

      private

      def title = "What a download costs"

      def lead
        "#{@results.clients.size} ways to download from #{@results.sites.size} " \
          "#{@results.sites.one? ? "site" : "sites"}, measured in " \
          "#{escape(@results.files.join(", "))}."
      end

      def content
        "#{FIGURES.map { |figure| section(*figure) }.join("\n")}" \
          "<section><h2>The findings of 2008, today</h2>" \
          "#{@results.files.map { |file| findings(file) }.join("\n")}</section>"
      end

      def footer
        "Written by nb rubyhttp chart from its rows. “%&nbsp;CPU” divides CPU time by elapsed " \
          "time, so a slow site seems to cost less. By CPU time per gigabyte it costs more, " \
          "because the same bytes come in more and smaller parts."
      end

      def section(title, unit, number)
        charts = [bars("#{title}, by site", unit, by_site(number), @results.sites),
                  bars("#{title}, by client", unit, by_client(number), @results.clients)]
        "<section><h2>#{escape(title)}</h2>#{charts.join}</section>"
      end

      def bars(title, unit, rows, columns) # rubocop:disable Metrics/ParameterLists
        grid = grid([title, unit, :lower], rows, columns, chart: { kind: :bars, scale: :linear })
        figure(grid, ::Bench::Report::Bars)
      end

      # One row per client and file, with its number at each site.
      def by_site(number)
        @results.clients.product(@results.files).map do |client, file|
          rows = @results.sites.map { |site| @results.find(file, site, client) }
          [label(client, file), KEYS.fetch(client, "pool"), rows.map { |row| row&.send(number) }]
        end
      end

      # One row per site and file, with the number of each client.
      def by_client(number)
        @results.sites.product(@results.files).map do |site, file|
          rows = @results.clients.map { |client| @results.find(file, site, client) }
          [label(site, file), "pool", rows.map { |row| row&.send(number) }]
        end
      end

      def label(name, file) = @several ? "#{name}, #{file}" : name

      def findings(file)
        rows = RubyhttpFindings.new(@results, file).all.map do |finding|
          "<p><b class=\"#{STYLES.fetch(finding.verdict)}\">#{finding.word}</b>: " \
            "#{escape(finding.text)}" \
            "#{"<br><small>#{escape(finding.figures)}</small>" unless finding.figures.empty?}</p>"
        end
        "#{"<h3>#{escape(file)}</h3>" if @several}#{rows.join("\n")}"
      end
    end
  end
end
