# frozen_string_literal: true

module Bench
  module Report
    # The headline numbers of every table as Markdown: the part of {PAGES} that is generated. {Page}
    # shows the rest: all views, ratios with their intervals, notes, sources.
    class Markdown
      # Pages in docs/ and the tables of each, by id: those of the articles, and all others.
      PAGES = { "BENCHMARKS.md" => /\A[a-i]\d/, "COMPARISONS.md" => /\A(?![a-i]\d)/ }.freeze
      # Between these lines of a document everything is generated.
      BEGINNING = /^<!-- nb bench: (?<directory>\S+) -->\n/
      ENDING = "<!-- end of nb bench -->"
      # Kinds of rows that a summary shows.
      KINDS = %i[measured published].freeze
      private_constant :KINDS

      # Replaces what stands between the markers of a document.
      #
      # @param path [String] of a Markdown file with both markers
      # @param results [Array<Result>] those of other pages' tables are left out
      # @param directory [String] where the results are, relative to the source tree; several parted
      #   by commas
      # @return [void]
      # @raise [Bench::Error] when a marker is missing
      def self.update(path, results, directory)
        text = File.read(path, encoding: "UTF-8")
        beginning = text.index(BEGINNING)
        ending = text.index(ENDING)
        unless beginning && ending && beginning < ending
          raise Error, "#{path} needs the lines <!-- nb bench: DIRECTORY --> and #{ENDING}"
        end

        ids = PAGES.fetch(File.basename(path), //)
        mine = results.select { |result| ids.match?(result.table.id) }
        tables = mine.empty? ? "" : "\n#{new(mine, Bench.tables.keys.grep(ids))}\n"
        generated = "<!-- nb bench: #{directory} -->\n#{tables}"
        File.write(path, text[0...beginning] + generated + text[ending..])
      end

      # @param path [String]
      # @return [Array<String>] directories named in the document; "-" names none
      def self.directories(path)
        File.read(path, encoding: "UTF-8")[BEGINNING, "directory"].to_s.split(",") - ["-"]
      end

      # @param results [Array<Result>]
      # @param tables [Array<String>] ids: what has no samples of them is named
      def initialize(results, tables = Bench.tables.keys)
        @results = results
        @tables = tables
      end

      # @return [String]
      def to_s
        crowd = overall.crowd
        tables = @results.group_by(&:table).values
                         .select { |results| Result.main(results).grids.any?(&:headline?) }
                         .map { |results| table(results) }
        [*("> #{crowd}\n" if crowd), summary, *common_settings, *tables, *rest].join("\n")
      end

      private

      def overall = @overall ||= Summary.new(@results)

      def summary
        return "" unless overall.any?

        lost = overall.lost.map { |text| "- #{text}" }
        lines = ["**#{overall.line}**", ""]
        lines += ["Comparisons lost (#{Summary::RATIO}):", "", *lost, ""] if lost.any?
        lines.join("\n")
      end

      # Names every table without samples, so that nobody looks for its numbers.
      def rest
        missing = @tables - @results.map { |result| result.table.id }
        return if missing.empty?

        links = missing.map { |id| "[#{id.upcase}](../bench/tables/#{id}.rb)" }
        "## Not measured\n\nThese tables have no samples yet: #{links.join(", ")}.\n"
      end

      def table(results)
        result = Result.main(results)
        table = result.table
        grids = result.grids.select(&:headline?)
        columns = grids.flat_map { |grid| grid.headline.map { |index| [grid, index] } }
        heads = columns.map { |grid, index| head(grid, index, main: grid == grids.first) }
        ["## #{table.id.upcase}: #{table.title}", "", lead(result, results), "",
         *caption(grids.first, table),
         row([corner(grids.first), *heads]), row(["---", *heads.map { "---:" }]),
         *rows(grids.first, columns), ""].join("\n")
      end

      # What the main view shows, where the table's title does not say it.
      def caption(grid, table) = grid.title == table.title ? [] : ["**#{grid.title}**", ""]

      def lead(result, results)
        [result.table.question, setting(result), Takeaway.new(result).to_s,
         earlier(results, result), settings(result)].reject(&:empty?).join(" ")
      end

      def setting(result)
        id = result.table.id
        options = result.session["options"]
        quick = "quick run, " if result.quick?
        "([source and method](../bench/tables/#{id}.rb); #{result.ruby}, #{quick}" \
          "#{samples(result)} × #{Format.short(options["seconds"])} s" \
          "#{priority(result)}#{elsewhere(result)})"
      end

      # How many samples a cell of the summary has: all as many, or from the fewest to the most.
      def samples(result)
        lines = result.grids.select(&:headline?).flat_map do |grid|
          grid.rows.select { |line| line.kind == :measured }
              .flat_map { |line| line.figures.values_at(*grid.headline).compact }
        end
        fewest, most = lines.map(&:count).select(&:positive?).minmax
        fewest == most ? fewest : "#{fewest} to #{most}"
      end

      def priority(result)
        priority = result.session["machine"]["priority"]
        priority ? ", #{priority} priority" : ""
      end

      # The page shows what was measured before, too.
      def earlier(results, main)
        times = results.select { |one| one.ruby == main.ruby && one != main }
                       .map(&:at)
        times.empty? ? "" : "Also measured on #{times.join(" and ")} (see the HTML page)."
      end

      # How most tables configure a rival. Only a table that does otherwise says so itself.
      def common_settings
        return if usual_settings.empty?

        rows = usual_settings.map { |pair| row(pair) }
        ["Each program is configured like this, unless a table says otherwise:", "",
         row(%w[program configuration]), row(%w[--- ---]), *rows, ""]
      end

      # @return [Hash{String => String}] runtime's label => the text of most tables, two at least
      def usual_settings
        @usual_settings ||= begin
          mains = @results.group_by(&:table).values.map { |results| Result.main(results) }
          counts = mains.flat_map { |result| result.settings.slice(*labels).to_a }.tally
          counts.select { |_, count| count > 1 }.sort_by(&:last).to_h(&:first).sort.to_h
        end
      end

      def labels = Bench.runtimes.values.map(&:label)

      def settings(result)
        own = result.settings.reject { |rival, text| usual_settings[rival] == text }
        own.map { |rival, text| "#{rival}: #{text}." }.join(" ")
      end

      # Whether its samples come from another machine than most.
      def elsewhere(result)
        usual = @results.map { |one| cpu(one) }.tally.max_by(&:last).first
        ", on another machine: #{cpu(result)}" unless cpu(result) == usual
      end

      def cpu(result) = result.session["machine"]["cpu"]

      def corner(grid) = "#{grid.column_title} (#{grid.unit}, #{grid.better} is better)"

      # A view beside the main one: what its name adds, its unit, its column.
      def head(grid, index, main:)
        return grid.columns[index] if main

        "#{grid.id.split.drop(1).join(" ")}, #{grid.unit}: #{grid.columns[index]}"
      end

      def rows(main, columns)
        shown = main.rows.select { |line| KINDS.include?(line.kind) }
        shown.map do |line|
          cells = columns.map do |grid, index|
            cell(grid.rows.find { |one| same?(one, line) }, index)
          end
          mark = line.kind == :measured ? "**" : "*"
          row(["#{mark}#{line.label}#{mark}", *cells])
        end
      end

      def same?(one, other) = [one.kind, one.label] == [other.kind, other.label]

      def cell(line, index)
        figure = line&.figures&.at(index)
        return Format::NOTHING unless figure

        [Format.number(figure.value) + (figure.notes.any? ? "\\*" : ""),
         *Format.doubts(figure)].join(", ")
      end

      def row(cells)
        "| #{cells.map { |cell| cell.to_s.gsub("|", "\\|") }.join(" | ")} |"
      end
    end
  end
end
