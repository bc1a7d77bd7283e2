# frozen_string_literal: true

module Bench
  module Report
    # docs/EXPERIMENTS.md: every row of the articles, the command that runs it, the page that
    # answers. `rake experiments` writes it.
    module Rows
      PATH = File.join(ROOT, "docs", "EXPERIMENTS.md")
      NUMBERS = File.join(ROOT, "docs", "BENCHMARKS.md")
      HEAD = <<~MARKDOWN
        # Every experiment of the articles

        Which experiments did the articles behind NeverBlock describe, and how do you repeat them? For each,
        this page gives its name, the command that repeats it, and the page with the result. If
        [BENCHMARKS.md](BENCHMARKS.md) has no numbers yet, the link leads to the source of the table or of the
        program.

        `nb bench --list` also shows tables that belong to no article. Two names are ambiguous: the tables D1
        and D2 are not the rows D1 and D2 of this page.

        `rake experiments` writes this page from `bench/rows.rb`.
      MARKDOWN
      private_constant :HEAD

      class << self
        # @return [void]
        def write = File.write(PATH, to_s)

        # @return [String]
        def to_s
          [HEAD, *ROWS.map { |article, rows| section(article, rows) }].join("\n")
        end

        # @param row [Row]
        # @return [String] relative to docs/
        def page(row)
          return row.page if row.page

          table = tables(row).first
          anchor = anchors[table.id]
          anchor ? "BENCHMARKS.md##{anchor}" : "../bench/tables/#{table.id}.rb"
        end

        # @param row [Row]
        # @return [Array<Table>] that its command runs
        # @raise [Bench::Misuse] when one is unknown
        def tables(row)
          ids = row.command[/\Anb bench ((?:\w+ ?)+)/, 1] or return []

          Bench.select(ids.split)
        end

        private

        def section(article, rows)
          lines = rows.map do |row|
            where = page(row)
            link = "[#{File.basename(where)[/[^#]+/]}](#{where})"
            "| #{row.id} | #{row.what} | `#{row.command}` | #{link} |"
          end
          ["## #{article}", "", "| row | what | command | page |", "|---|---|---|---|", *lines,
           ""].join("\n")
        end

        # Id of a table => anchor of its section.
        def anchors
          @anchors ||= File.readlines(NUMBERS).grep(/^## \w+: /).to_h do |line|
            heading = line.delete_prefix("## ").strip
            [heading[/\w+/].downcase,
             heading.downcase.gsub(/[^\p{Alnum}_\- ]/, "").tr(" ", "-")]
          end
        end
      end
    end
  end
end
