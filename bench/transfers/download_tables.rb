# frozen_string_literal: true

require_relative "verdicts"

module Bench
  module Transfers
    # The part of {Page} on the Net::HTTP study.
    class DownloadTables
      include Verdicts

      FAST = "dallas"
      # The sites by their speed.
      SITES = %w[dallas washdc chicago seattle london].freeze
      WORLDS = ["", " [thread]", " [async]", " [nb]"].freeze
      COUNTS = { "objects" => "Allocations", "KB allocated" => "Bytes Allocated",
                 "GC, ms" => "GC Time", "system calls" => "System Calls" }.freeze
      # What one unit of each heading is, in units of the column.
      FACTORS = { "KB allocated" => 1024.0, "GC, ms" => 0.001 }.freeze
      private_constant :FAST, :SITES, :WORLDS, :COUNTS, :FACTORS

      # @param samples [Samples]
      def initialize(samples)
        @samples = samples
        @ruby, *@others = samples.rubies("http")
      end

      # @return [String]
      def to_s
        return "## The Net::HTTP study (2008)\n\nNot measured.\n" unless @ruby

        ["## The Net::HTTP study (2008)\n", old, clients, sites, worlds, tools].join("\n")
      end

      private

      def old
        found = findings(@samples.download_findings(@ruby), "found in 2008")
        [<<~MARKDOWN, found, <<~MORE].join("\n")
          Each ratio divides the CPU times per gigabyte from dallas; the first seven are those of
          `nb rubyhttp findings`. The author measured Ruby 1.8.6 and 1.8.7; this is Ruby #{@ruby}.
        MARKDOWN
          He proposed buffered reading without copies, and select instead of Timeout. Ruby did both: since 1.9
          Net::HTTP tries to read first and then waits, 16 KB at a time, and net-protocol 0.2 no longer cuts its
          buffer. What was "stock" then is "1 KB with Timeout" here.
        MORE
      end

      def clients
        passes = [@ruby, *@others].to_h { |ruby| [ruby, @samples.downloads("http", ruby)] }
        counts = @samples.rows("counts", @ruby).to_h { |row| [row["Impl"], row] }
        names = passes.values.flatten.flat_map(&:clients).uniq
        heads = ["client", *passes.keys.map { |ruby| "s/GB, Ruby #{ruby}" }, "MB/s", "mean chunk",
                 *COUNTS.keys]
        rows = names.map { |name| [name, *amounts(name, passes), *counted(counts[name])] }
        ["### Every client at the fastest site\n", <<~MARKDOWN, table(heads, rows)].join("\n")
          Downloads of 50 MB; 5 MB for the last four columns. http.rb is the successor of rfuzz,
          em-http-request stands for the sequel's EventMachine. patron returns the body as a whole; curl and
          splice pass none of it to Ruby.
        MARKDOWN
      end

      def amounts(name, passes)
        cells = passes.map do |_, results|
          rows = rows(results, FAST, name)
          [middle(rows.map(&:cpu_per_gb)), rows]
        end
        rows = cells.first.last
        [*cells.map(&:first), middle(rows.map { |row| row.numbers["KBytes/second"] * 1.024e-3 }),
         middle(rows.map { |row| row.numbers["Mean chunk size"] })]
      end

      def counted(row)
        COUNTS.map do |heading, column|
          value = row && row[column]
          Report::Format.number(value && (value / FACTORS.fetch(heading, 1)))
        end
      end

      def sites
        passes = @samples.downloads("sites", @ruby)
        names = passes.flat_map(&:clients).uniq
        heads = ["client", *SITES.flat_map { |site| ["#{site}, % CPU", "s/GB"] }]
        rows = names.map do |name|
          [name, *SITES.flat_map do |site|
            rows = rows(passes, site, name)
            [middle(rows.map(&:cpu_percent)), middle(rows.map(&:cpu_per_gb))]
          end]
        end
        ["### Every site\n", <<~MARKDOWN, table(heads, rows)].join("\n")
          The author showed the share of the CPU by the clock, which is lower where the line is slow. He wrote
          that by total CPU time "this disparity would vanish". Today it is reversed: the same bytes arrive in
          more and smaller parts.
        MARKDOWN
      end

      def worlds
        passes = @samples.downloads("worlds", @ruby)
        names = passes.flat_map(&:clients).map { |name| name[/\A\S+/] }.uniq
        heads = ["client, site", "alone", "in a thread", "Async", "NeverBlock"]
        rows = names.product(passes.flat_map(&:sites).uniq).map do |name, site|
          ["#{name}, #{site}", *WORLDS.map do |world|
            middle(rows(passes, site, name + world).map(&:cpu_per_gb))
          end]
        end
        ["### In threads and fibers\n\nCPU seconds per gigabyte.\n", table(heads, rows)].join("\n")
      end

      def tools
        <<~MARKDOWN
          ### His tools and charts

          `nb rubyhttp` prints his thirteen columns, `nb rubyhttp combine` joins files as combine_csv.rb did.
          `nb rubyhttp chart FILE.csv` draws both charts: the clusters by client, which his tool could draw,
          and those by site, which he wanted.
        MARKDOWN
      end

      def rows(passes, site, client)
        passes.filter_map { |results| results.find(results.files.first, site, client) }
      end
    end
  end
end
