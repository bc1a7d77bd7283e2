# frozen_string_literal: true

require "optparse"
require_relative "../bench"
require_relative "rows"
require_relative "reference"
require_relative "player"
require_relative "comparison"
require_relative "run"
require_relative "table"

module Bench
  module Gate
    # The command line of bin/bench-gate.
    class CommandLine
      USAGE = <<~TEXT
        usage: bin/bench-gate [REF] [options]

        Is this tree slower than REF (a tag, a branch or a hash; without it, the last release's tag)?
        Measures the CPU time of an operation in eight rows, in pairs of processes that take turns; looks
        after 6, 12 and 20 pairs. A row fails if it is more than 5 % slower and its 95 % interval excludes
        0. REF is unpacked into tmp/gate/ and compiled once. About a minute on a quiet machine.

          -o, --only ROWS      only these rows, with commas between
          -n, --pairs N        N pairs of each row, without a look before: 6 or more
              --limit PERCENT  how much slower a row may be (5)
          -r, --ruby PATH      the Ruby that measures (this one), with options if any: "PATH --yjit"
          -h, --help           this text

        Exit status: 0: no row is slower; 1: a row is slower, or cannot be measured; 2: wrong arguments.
      TEXT
      # Exit status after Ctrl-C, as in shells.
      INTERRUPTED = 130
      # Pairs at most, so that a slip of a finger ends in this life.
      MOST = 1_000
      private_constant :INTERRUPTED, :MOST

      # @param argv [Array<String>]
      # @return [Integer] exit status
      def self.start(argv)
        new.run(argv)
      rescue OptionParser::ParseError, ArgumentError => error
        complain("#{error.message} (see --help)", 2)
      rescue Error => error
        complain(error.message, 2)
      rescue Interrupt
        INTERRUPTED
      end

      # @param text [String]
      # @param status [Integer]
      # @return [Integer] status
      def self.complain(text, status)
        warn "bin/bench-gate: #{text}"
        status
      end

      # @param argv [Array<String>]
      # @return [Integer] exit status
      # @raise [ArgumentError] for a value out of range
      # @raise [Bench::Error] when nothing can be measured
      def run(argv)
        options = { rows: ROWS, limit: 0.05, looks: Statistics::RISKS.keys, ruby: RbConfig.ruby }
        names = parser(options).parse(argv)
        return puts(USAGE) || 0 if options[:help]
        raise ArgumentError, "name one commit, not #{names.size}: #{names.join(", ")}" if
          names.size > 1

        measure(Reference.new(names.first), RubyTarget.new(options[:ruby], yjit: false), options)
      end

      private

      def parser(options)
        OptionParser.new do |on|
          on.on("-h", "--help") { options[:help] = true }
          on.on("-o", "--only ROWS", Array) { |ids| options[:rows] = rows(ids) }
          on.on("-n", "--pairs N", Integer) { |count| options[:looks] = [pairs(count)] }
          on.on("--limit PERCENT", Float) { |percent| options[:limit] = share(percent) }
          on.on("-r", "--ruby PATH") { |path| options[:ruby] = path }
        end
      end

      def rows(ids)
        strange = ids - ROWS.map(&:id)
        return ROWS.select { |row| ids.include?(row.id) } if strange.empty? && ids.any?

        raise ArgumentError, "--only: no row #{strange.join(", ")}; there are " \
                             "#{ROWS.map(&:id).join(", ")}"
      end

      def pairs(count)
        return count if count.between?(Statistics::FEWEST, MOST)

        raise ArgumentError, "--pairs: must be #{Statistics::FEWEST} to #{MOST}, got: #{count}"
      end

      def share(percent)
        return percent / 100 if percent.positive? && percent < 100

        raise ArgumentError, "--limit: must be above 0 and below 100, got: #{percent}"
      end

      def measure(reference, ruby, options)
        progress = Progress.new
        reference.build(ruby) { |text| progress.show(text) }
        progress.show("compiling this tree")
        Reference.compile(ruby, ROOT)
        found = Run.new({ tree: File.join(ROOT, "lib"), reference: reference.lib }, ruby: ruby,
                        progress: progress, **options.slice(:rows, :limit, :looks)).call
        progress.clear
        table = Table.new(found, "#{reference.name} (#{reference.commit[0, 9]}), #{ruby.label}")
        table.print($stdout)
        table.passed? ? 0 : 1
      end
    end
  end
end
