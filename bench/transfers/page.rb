# frozen_string_literal: true

require_relative "download_tables"
require_relative "samples"
require_relative "transfer_tables"

module Bench
  module Transfers
    # docs/TRANSFERS.md: what the Net::HTTP study and AsyncIoTest found, then and now. `rake
    # transfers` writes it from the files of {Measurement}.
    class Page
      PATH = File.join(ROOT, "docs", "TRANSFERS.md")
      # The line that names where the samples are.
      SOURCE = /^<!-- rake transfers: (?<directory>\S+) -->$/
      HEAD = <<~MARKDOWN
        # Downloads and transfers, then and now

        Between 2006 and 2008 one author measured two things. AsyncIoTest moved files through network and
        disk. The Net::HTTP study downloaded a file from five cities with several HTTP clients, and with
        several ways to fill Net::HTTP's buffer. This page says what he found or expected, and what the same
        commands find today.

        `rake transfers` writes this page from the samples in the tree (`rake "transfers[DIRECTORY]"` from
        others); `rake "transfers:measure[DIRECTORY]"` takes new samples. The tables
        [G1](BENCHMARKS.md#g1-ways-to-fill-nethttps-buffer),
        [G2](BENCHMARKS.md#g2-nethttp-beside-other-clients) and
        [G8](BENCHMARKS.md#g8-nethttp-as-it-is-in-a-loop) of the bench compare some of these in pairs, with
        YJIT.
      MARKDOWN
      METHOD = <<~MARKDOWN
        ## How it is measured

        - Each command runs once per pass, so a machine that slows down affects all commands alike. Numbers
          are medians of the passes, with the smallest and the largest in brackets.
        - A verdict needs six passes that all agree: chance alone would make them agree in 3 of 100 cases.
          Amounts that differ by less than 5 % are "no difference".
        - The five sites are processes on this machine with a limited speed: dallas has no limit, washdc 40
          MB/s, chicago 20, seattle 10, london 5. Nothing leaves the machine, so the limits of a real network
          are not measured.
        - CPU time is the client's. That of curl, the program, includes its start.
        - `--cold` drops the file that is read from the page cache, and waits until everything written is on
          the disk.
      MARKDOWN
      private_constant :HEAD, :METHOD

      # @return [String] the directory that the page names, relative to the source tree
      # @raise [Bench::Error] when it names none
      def self.directory
        File.read(PATH, encoding: "UTF-8")[SOURCE, "directory"] or
          raise Error, "#{PATH} names no directory: rake \"transfers[DIRECTORY]\""
      end

      # @param directory [String] relative to the source tree
      # @return [void]
      def self.write(directory) = File.write(PATH, new(directory).to_s)

      # @param directory [String] relative to the source tree
      # @raise [Bench::Error] when nothing is there
      def initialize(directory)
        @directory = directory
        @samples = Samples.new(File.join(ROOT, directory))
        @rubies = @samples.rubies
      end

      # @return [String]
      def to_s
        [HEAD, "<!-- rake transfers: #{@directory} -->\n", METHOD, setting,
         DownloadTables.new(@samples).to_s, TransferTables.new(@samples).to_s, commands].join("\n")
      end

      private

      def setting
        facts = @samples.facts
        last = facts.last
        times = facts.map { |one| one.fetch("at")[0, 16].tr("T", " ") }.minmax.uniq
        rubies = facts.map { |one| one.fetch("ruby")[/\Aruby [\d.]+/].capitalize }.uniq
        crowded = facts.count { |one| one.fetch("others") > Neighbours::LIMIT }
        <<~MARKDOWN
          Measured #{times.join(" to ")} UTC with #{rubies.join(" and ")}, without YJIT, on
          #{Machine.line(last.fetch("machine"))}.#{" Other programs used more than 5 % of a core during " \
                                                   "#{crowded} of #{facts.size} files." if crowded.positive?}
        MARKDOWN
      end

      def commands
        rows = PARTS.map do |name, part|
          files = @samples.files(name)
          "| `#{part.command}` | #{files.any? ? "`#{name}-*`, #{files.size}" : "–"} |"
        end
        <<~MARKDOWN + rows.map { |row| "#{row}\n" }.join
          ## The commands

          The samples are in `#{@directory}/#{FOLDER}`; `nb rubyhttp findings`, `combine` and `chart`, and
          `nb iotest findings`, read such files.

          | command | files |
          | --- | --- |
        MARKDOWN
      end
    end
  end
end
