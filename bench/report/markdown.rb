# frozen_string_literal: true

module Bench
  module Report
    # The tables as Markdown, and the one page of the documentation that holds them.
    class Markdown
      # Between these lines of a document everything is generated.
      BEGINNING = /^<!-- nb bench: (?<directory>\S+) -->\n/
      ENDING = "<!-- end of nb bench -->"

      # Replaces what stands between the markers of a document.
      #
      # @param path [String] of a Markdown file with both markers
      # @param results [Array<Result>]
      # @param directory [String] where the results are, relative to the source tree
      # @return [void]
      # @raise [Bench::Error] when a marker is missing
      def self.update(path, results, directory)
        text = File.read(path, encoding: "UTF-8")
        beginning = text.index(BEGINNING)
        ending = text.index(ENDING)
        unless beginning && ending && beginning < ending
          raise Error, "#{path} needs the lines <!-- nb bench: DIRECTORY --> and #{ENDING}"
        end

        tables = results.empty? ? "" : "\n#{new(results)}\n"
        generated = "<!-- nb bench: #{directory} -->\n#{tables}"
        File.write(path, text[0...beginning] + generated + text[ending..])
      end

      # @param path [String]
      # @return [String, nil] directory named in the document
      def self.directory(path)
        File.read(path, encoding: "UTF-8")[BEGINNING, "directory"]
      end

      # @param results [Array<Result>]
      def initialize(results)
        @results = results
      end

      # @return [String]
      def to_s
        crowd = Machine.crowd(@results.map { |result| result.session.fetch("machine") })
        tables = @results.group_by(&:table).map do |table, results|
          [head(table), *results.map { |result| body(result) }].join("\n")
        end
        [*("> #{crowd}\n" if crowd), summary, contents, *tables].join("\n")
      end

      private

      def summary
        found = Summary.new(@results)
        return "" unless found.any?

        lost = found.lost.map { |text| "- #{text}" }
        lines = ["**#{found.line}**", ""]
        lines += ["Worse were:", "", *lost, ""] if lost.any?
        lines.join("\n")
      end

      def contents
        items = @results.map(&:table).uniq.map do |table|
          title = "#{table.id.upcase}: #{table.title}"
          anchor = title.downcase.gsub(/[^\p{Alnum}_\- ]/, "").tr(" ", "-")
          "- [#{title}](##{anchor})"
        end
        [*items, ""].join("\n")
      end

      def head(table)
        lines = ["## #{table.id.upcase}: #{table.title}", "", table.question, ""]
        table.sources.each { |source| lines << "Source: #{Report.source(source)}." }
        table.claims.each { |claim| lines += ["", claim] }
        lines += ["", "How ours differs: #{table.differs}", ""]
        lines.join("\n")
      end

      def body(result)
        lines = ["### #{result.ruby}", "", machine(result), ""]
        result.grids.each { |grid| lines += grid(grid) }
        lines += remarks(result)
        lines.join("\n")
      end

      def machine(result)
        session = result.session
        options = session["options"]
        length = "#{options["pairs"]} passes, samples of #{Format.short(options["seconds"])} s"
        quick = result.quick? ? "**Quick run.** " : ""
        "#{quick}#{session["at"][0, 10]}, #{Machine.line(session["machine"])}; #{length}."
      end

      def grid(grid)
        lines = ["**#{grid.id}: #{grid.title}** (#{grid.unit}, #{grid.better} is better)", ""]
        lines << row([grid.column_title, *grid.columns])
        lines << row(["---", *grid.columns.map { "---:" }])
        lines += grid.rows.map { |line| figures(line) }
        lines << ""
        lines += comparisons(grid) if grid.comparisons.any? { |versus| versus.estimates.any? }
        lines + grid.notes.map { |note| "\\* #{note}  " } + [""]
      end

      def figures(line)
        cells = line.figures.map do |figure|
          next Format::NOTHING unless figure

          value = Format.number(figure.value) + (figure.notes.any? ? "\\*" : "")
          small = line.kind == :measured ? Format.small_print(figure).join(", ") : ""
          small.empty? ? value : "#{value}<br><sub>#{small}</sub>"
        end
        label = line.kind == :measured ? "**#{line.label}**" : "*#{line.label}*"
        row([label, *cells])
      end

      def comparisons(grid)
        present = grid.comparisons.select { |versus| versus.estimates.any? }
        lines = [row(["#{present.first.subject} against", *grid.columns]),
                 row(["---", *grid.columns.map { "---:" }])]
        lines + present.map { |versus| versus(grid, versus) } + [""]
      end

      def versus(grid, versus)
        cells = versus.estimates.zip(versus.verdicts).map do |estimate, verdict|
          next Format::NOTHING unless estimate

          word = versus.again ? "noise" : grid.word(verdict)
          "#{Format.ratio(estimate)}<br><sub>#{Format.interval(estimate)} #{word}</sub>"
        end
        row([versus.again ? "itself (noise floor)" : versus.label, *cells])
      end

      def remarks(result)
        lines = result.missing.map { |runtime, reason| "- no #{runtime}: #{reason}" }
        lines += result.failures.map { |text| "- failed: #{text}" }
        lines += result.complaints.map { |text| "- first error: #{text}" }
        lines.any? ? lines + [""] : []
      end

      def row(cells)
        "| #{cells.map { |cell| cell.to_s.gsub("|", "\\|") }.join(" | ")} |"
      end
    end
  end
end
