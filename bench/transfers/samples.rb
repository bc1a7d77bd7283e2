# frozen_string_literal: true

require_relative "measurement"
require_relative "../../lib/neverblock/cli"
require_relative "../../lib/neverblock/cli/iotest_findings"
require_relative "../../lib/neverblock/cli/rubyhttp_findings"

module Bench
  module Transfers
    # The files that {Measurement} has written, and what can be read from them.
    class Samples
      # A finding in all passes: its text, how often each verdict was found, the pass of the median.
      Summary = Struct.new(:text, :findings) do
        # @return [String] the verdict of all passes; with fewer than {PASSES} they decide nothing
        def verdict
          counts = findings.map(&:word).tally
          return "undecided (#{counts.map { |word, count| "#{word} #{count}" }.join(", ")})" if
            counts.size > 1

          word = counts.keys.first
          return word if findings.size >= PASSES || word == CLI::Finding::VERDICTS[:unmeasured]

          "#{word}, in #{findings.size} #{findings.one? ? "pass" : "passes"} of #{PASSES}"
        end

        # @return [Array<Float>] smallest, median and largest of its ratio; empty without any
        def ratios
          sorted = findings.filter_map(&:ratio).sort
          sorted.empty? ? [] : [sorted.first, Statistics.median(sorted), sorted.last]
        end

        # @return [String] what the middle pass has measured
        def figures
          findings.sort_by { |one| one.ratio || 0 }[(findings.size - 1) / 2].figures
        end
      end

      CLI = ::NB::CLI
      private_constant :CLI

      # @param directory [String]
      # @raise [Bench::Error] when nothing is there
      def initialize(directory)
        @folder = File.join(directory, FOLDER)
        @facts = lines(File.join(@folder, FACTS))
      rescue Errno::ENOENT
        raise Error, "no transfers in #{directory} (rake transfers:measure[#{directory}])"
      end

      # @return [Array<Hash>] of {FACTS}, one per file that is still there
      def facts
        @facts.select { |one| File.exist?(File.join(@folder, one.fetch("file"))) }
      end

      # @param part [String] of {PARTS}
      # @return [Array<String>] versions, the newest first
      def rubies(part = "*")
        version = /-(\d+(?:\.\d+)+)-\d+\./
        names = Dir["#{@folder}/#{part}-*-*"].filter_map { |path| path[version, 1] }
        names.uniq.sort_by { |name| Gem::Version.new(name) }.reverse
      end

      # @param part [String]
      # @return [Array<String>] names of its files
      def files(part)
        Dir.children(@folder).grep(/\A#{part}-.*\.#{PARTS.fetch(part).kind}\z/).sort
      end

      # @param part [String]
      # @param ruby [String]
      # @return [Array<NB::CLI::RubyhttpResults>] one per pass
      def downloads(part, ruby) = paths(part, ruby).map { |path| CLI::RubyhttpResults.new([path]) }

      # @param part [String]
      # @param ruby [String]
      # @return [Array<Hash>] rows of a file of JSON
      def rows(part, ruby) = paths(part, ruby).flat_map { |path| lines(path) }

      # @param ruby [String]
      # @return [NB::CLI::IotestFindings, nil] all passes in one
      def transfers(ruby)
        all = paths("iotest", ruby) + paths("cold", ruby)
        CLI::IotestFindings.new(all) if all.any?
      end

      # Of those that several parts have measured, the first.
      #
      # @param ruby [String]
      # @return [Array<Summary>]
      def download_findings(ruby)
        parts = %w[http sites].map do |part|
          summaries(downloads(part, ruby).map do |pass|
            CLI::RubyhttpFindings.new(pass, pass.files.first).all
          end)
        end
        parts.flatten.group_by(&:text).values
             .map { |all| all.find { |one| one.ratios.any? } || all.first }
      end

      # @param ruby [String]
      # @return [Array<Summary>]
      def transfer_findings(ruby)
        pairs = paths("iotest", ruby).map { |path| [path, path.sub("/iotest-", "/cold-")] }
        summaries(pairs.map do |pair|
          CLI::IotestFindings.new(pair.select { |path| File.exist?(path) }).all
        end)
      end

      private

      def summaries(passes)
        passes.flatten.group_by(&:text).map { |text, findings| Summary.new(text, findings) }
      end

      def paths(part, ruby)
        Dir["#{@folder}/#{part}-#{ruby}-*.#{PARTS.fetch(part).kind}"].sort
      end

      def lines(path) = File.foreach(path).map { |line| JSON.parse(line) }
    end
  end
end
