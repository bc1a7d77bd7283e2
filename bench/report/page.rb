# frozen_string_literal: true

require "erb"
require "fileutils"
require "pathname"

module Bench
  module Report
    # All results on one page that needs nothing else: no network, no script. Reads well on a phone
    # and in the dark.
    #
    # @example
    #   Bench::Report::Page.new(results, title: "NeverBlock, measured").write("tmp/index.html")
    class Page
      # Widths of both pictures of each chart, in pixels: the style sheet shows the one that fits.
      WIDE = 720
      SMALL = 340
      STYLE = File.join(__dir__, "page.css")
      # What the numbers mean; at the foot of the page.
      LEGEND = <<~TEXT
        Each number is the median of its samples, each sample a process of its own; whiskers reach
        from the lowest to the highest sample. Outlined bars and dashed lines are the published
        numbers. “% CPU” is user and system time per second of clock time. Ratios are medians over
        pairs measured next to each other, with an exact 95 % interval from order statistics: faster
        or slower when the interval lies beyond ±2 % and the ratio beyond what the subject differs
        from itself, same when the interval lies within ±2 %, else inconclusive; fewer than six
        pairs, or errors, give no verdict. * marks a note below the table.
      TEXT
      private_constant :STYLE, :LEGEND

      # @param results [Array<Result>]
      # @param title [String]
      # @param lead [String] a paragraph at the top
      # @param claims [Boolean] whether the page judges what the articles said
      def initialize(results, title: "NeverBlock, measured", lead: "", claims: true)
        @results = results
        @title = title
        @lead = lead
        @claims = claims
      end

      # @param path [String] directories are made
      # @return [String] path
      def write(path)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, to_s(docs: docs(path)))
        path
      end

      # @param docs [String, nil] see {Claims#initialize}
      # @return [String]
      def to_s(docs: nil)
        <<~HTML
          <!DOCTYPE html>
          <html lang="en">
          <head>
          <meta charset="utf-8">
          <meta name="viewport" content="width=device-width, initial-scale=1">
          <meta name="color-scheme" content="light dark">
          <title>#{escape(@title)}</title>
          <style>
          #{File.read(STYLE)}</style>
          </head>
          <body>
          <header><h1>#{escape(@title)}</h1>
          #{"<p class=\"lead\">#{escape(@lead)}</p>" unless @lead.empty?}
          #{crowd}
          #{summary}
          #{contents}</header>
          <main>
          #{Claims.new(@results, docs: docs) if @claims}
          #{tables.map { |table, results| section(table, results) }.join("\n")}
          </main>
          <footer>#{legend}</footer>
          </body>
          </html>
        HTML
      end

      private

      # From a page in the source tree to its documentation.
      def docs(path)
        folder = File.expand_path(File.dirname(path))
        return unless folder.start_with?("#{ROOT}/")

        Pathname.new(File.join(ROOT, "docs")).relative_path_from(folder).to_s
      end

      def tables = @results.group_by(&:table)

      def overall = @overall ||= Summary.new(@results)

      def summary
        return "" unless overall.any?

        lost = overall.lost.map { |text| "<li>#{escape(text)}</li>" }.join
        worse = "<details><summary>those that were worse (#{Summary::RATIO})</summary>" \
                "<ul>#{lost}</ul></details>"
        "<p>#{escape(overall.line)}</p>#{worse unless lost.empty?}"
      end

      def crowd
        text = overall.crowd
        text ? "<p class=\"crowd\">#{escape(text)}</p>" : ""
      end

      def contents
        return "" if tables.size < 2

        items = tables.keys.map do |table|
          "<li><a href=\"##{table.id}\">#{table.id.upcase}</a> #{escape(table.title)}</li>"
        end
        items.unshift("<li><a href=\"#claims\">What the articles said</a></li>") if @claims
        "<nav><ul>#{items.join("\n")}</ul></nav>"
      end

      def section(table, results)
        sources = table.sources.map { |source| escape(Report.source(source)) }.join("<br>")
        claims = table.claims.map { |claim| "<p class=\"claim\">#{escape(claim)}</p>" }.join
        <<~HTML
          <section id="#{table.id}">
          <h2><span class="id">#{table.id.upcase}</span> #{escape(table.title)}</h2>
          <p>#{escape(table.question)}</p>
          #{results.group_by(&:ruby).each_value.map { |series| ruby(series) }.join("\n")}
          <details><summary>Source, and how ours differs</summary>
          <p>#{sources}</p>#{claims}
          <p>#{escape(table.differs)}</p></details>
          </section>
        HTML
      end

      # Every session on one Ruby: the last one, and behind a click those before.
      def ruby(series)
        *before, last = series
        earlier = before.map do |result|
          "<details><summary>measured before, #{result.at}</summary>#{measured(result)}</details>"
        end
        "<h3>#{escape(last.ruby)}</h3>\n#{measured(last)}\n#{earlier.join("\n")}"
      end

      def measured(result)
        <<~HTML
          <p class="takeaway">#{escape(Takeaway.new(result).to_s)}</p>
          #{result.grids.map { |grid| figure(grid) }.join("\n")}
          #{remarks(result)}
          <p class="machine">#{"<strong>Quick run.</strong> " if result.quick?}#{machines(result)}</p>
        HTML
      end

      def figure(grid)
        notes = grid.notes.map { |note| "<p class=\"note\">* #{escape(note)}</p>" }.join
        table = HtmlTable.new(grid)
        <<~HTML
          <figure>
          <figcaption><b>#{escape(grid.id)}: #{escape(grid.title)}</b>
          <span>#{escape(grid.unit)}, #{grid.better} is better#{each(grid)}</span></figcaption>
          #{chart(grid)}
          #{table.figures}#{notes}#{table.comparisons}
          </figure>
        HTML
      end

      def each(grid)
        return "" unless grid.chart[:scale] == :each && grid.columns.size > 1

        "; every group has its own scale"
      end

      # A chart of a single column would only repeat the table, but bars show proportions.
      def chart(grid)
        drawn = grid.chart[:kind] == :lines && grid.columns.size > 1 ? Lines : Bars
        wide = drawn.new(grid, width: WIDE).svg
        small = drawn.new(grid, width: SMALL).svg
        "<div class=\"wide\">#{wide}</div><div class=\"small\">#{small}</div>"
      end

      def remarks(result)
        lines = result.missing.map { |runtime, reason| "no #{runtime}: #{reason}" }
        lines += result.failures.map { |text| "failed: #{text}" }
        lines += result.complaints.map { |text| "first error: #{text}" }
        lines += result.settings.map { |rival, text| "#{rival}: #{text}" }
        return "" if lines.empty?

        "<ul class=\"remarks\">#{lines.map { |line| "<li>#{escape(line)}</li>" }.join}</ul>"
      end

      def machines(result) = result.sessions.map { |session| machine(session) }.join("<br>")

      def machine(session)
        options = session["options"]
        escape("#{session["description"]}. #{Machine.line(session["machine"])}. " \
               "At most #{options["pairs"]} passes, " \
               "samples of #{Format.short(options["seconds"])} s, " \
               "#{session["at"]}.")
      end

      def legend = escape(LEGEND.gsub(/\s+/, " ").strip)

      def escape(text) = ERB::Util.html_escape(text.to_s)
    end
  end
end
