# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require "time"
require_relative "../bench"

module Bench
  # The downloads of `nb rubyhttp` and the transfers of `nb iotest`, measured for docs/TRANSFERS.md.
  # Each command runs once per pass, and the file of each pass is kept.
  module Transfers
    # What is measured: a command of `nb`, its output's kind, and how many passes.
    Part = Struct.new(:words, :kind, :passes) do
      # @return [String] as a user types it
      def command = "nb #{words.join(" ")}"
    end

    # With six passes that agree, the sign test's risk of error is 3 %: as for six pairs of a table.
    PASSES = Statistics::FEWEST
    PARTS = {
      "http" => Part.new(%w[rubyhttp -i all -S dallas -l 50m -n 3], "csv", PASSES),
      "sites" => Part.new(%w[rubyhttp -i stock,custom-16kbuffer-notimeout,curb -l 10m], "csv",
                          PASSES),
      "worlds" => Part.new(%w[rubyhttp -i stock,custom-16kbuffer-notimeout -S dallas,seattle
                              -w blocking,thread,async,nb -l 20m], "csv", PASSES),
      "iotest" => Part.new(%w[iotest suite -J 500M], "json", PASSES),
      "cold" => Part.new(%w[iotest suite --cold -J 500M], "json", PASSES),
      "counts" => Part.new(%w[rubyhttp -i all -S dallas -l 5m -J --calls], "json", 1),
      "everything" => Part.new(%w[rubyhttp -i all -l 5m], "csv", 1)
    }.freeze
    FOLDER = "transfers"
    # One line per file: when, on what, beside whom.
    FACTS = "passes.jsonl"

    # Measures what is not there yet.
    #
    # @example
    #   Bench::Transfers::Measurement.new("bench/results/mine", %w[http sites]).run
    class Measurement
      PROGRAM = File.join(ROOT, "exe", "nb")
      private_constant :PROGRAM

      # @param directory [String] where the bench keeps samples; the files lie in a folder of it
      # @param parts [Array<String>] of {PARTS}
      # @param passes [Integer] at most
      # @raise [Bench::Error] for a part that is none
      def initialize(directory, parts = PARTS.keys, passes: PASSES)
        strange = parts - PARTS.keys
        raise Error, "no part #{strange.join(", ")}; known are #{PARTS.keys.join(", ")}" if
          strange.any?

        @folder = File.join(directory, FOLDER)
        @parts = PARTS.slice(*parts)
        @passes = passes
      end

      # @yieldparam text [String] what begins, for a progress line
      # @return [void]
      # @raise [Bench::Error] when a command fails
      def run
        FileUtils.mkdir_p(@folder)
        (1..@passes).to_a.product(@parts.to_a).each do |pass, (name, part)|
          path = File.join(@folder, "#{name}-#{RUBY_VERSION}-#{pass}.#{part.kind}")
          next if pass > part.passes || File.exist?(path)

          yield "#{part.command}, pass #{pass}" if block_given?
          measure(part, path)
        end
      end

      private

      # A file is there when all of it is.
      def measure(part, path)
        unfinished = "#{path}.unfinished"
        whole, others = Neighbours.new.watch { execute(part, unfinished) }
        raise Error, "#{part.command} fails, see above" unless whole

        facts = { file: File.basename(path), at: Time.now.utc.iso8601, others: others.round(3),
                  ruby: RUBY_DESCRIPTION, machine: Machine.describe }
        File.write(File.join(@folder, FACTS), "#{JSON.generate(facts)}\n", mode: "a")
        File.rename(unfinished, path)
      ensure
        FileUtils.rm_f(unfinished)
      end

      def execute(part, output)
        quiet = part.words.first == "rubyhttp" ? %w[-q] : []
        system(RbConfig.ruby, "-W0", "-I#{File.join(ROOT, "lib")}", PROGRAM, *part.words, *quiet,
               out: output)
      end
    end
  end
end
