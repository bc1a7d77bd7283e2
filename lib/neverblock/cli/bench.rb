# frozen_string_literal: true

require "optparse"

module NB
  module CLI
    # `nb bench`: measures the published tables anew and reports them. The work is done in bench/ of
    # the source tree, which is no part of the installed gem.
    module Bench
      # One line for the list of commands.
      SUMMARY = "measure the published tables again, beside other runtimes"
      # What `nb help bench` prints.
      USAGE = <<~TEXT
        usage: nb bench [ID ...] [options]

        Measures the tables with these IDs (all, if you give none; nb bench --list shows them), prints
        them, and writes every sample and a page. Ctrl-C ends it and keeps what is done.

          -l, --list           list the tables, their questions and how long they take
          -q, --quick          samples of 1 s instead of 5 s, 3 passes instead of 10, fewer columns
          -n, --pairs N        passes over all cells; samples of the same pass make a pair
          -s, --seconds S      minimum length of a sample
          -o, --only IDS       only these runtimes, with commas between: --only threads,nb
          -r, --ruby PATH      the Ruby that cells run on (this one); may be given more than once
              --no-yjit        without YJIT; otherwise with it, if the Ruby has it
              --out DIR        where samples (JSONL) and page go: bench/results/DATE-HOST,
                               or tmp/bench for a quick run
              --delayd COMMAND use another delay server; it gets --port N
              --report DIR     measure nothing; report the samples in DIR, and write their page
              --docs           put the headline numbers into docs/BENCHMARKS.md
      TEXT
      # The source tree's half of this command.
      HOME = File.expand_path("../../../bench", __dir__)
      # Exit status after Ctrl-C, as shells count it.
      INTERRUPTED = 130
      private_constant :HOME, :INTERRUPTED

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        def run(argv)
          load_tree
          report_errors("bench") { obey(argv) }
        end

        # Loads bench/ of the source tree.
        #
        # @return [void]
        # @raise [UsageError] in an installed gem
        # @scheduling may wait
        def load_tree
          unless File.exist?(File.join(HOME, "bench.rb"))
            raise UsageError, "needs the source tree (#{HOME} is missing): the installed gem has " \
                              "no bench; clone the project and run bin/setup"
          end

          require File.join(HOME, "bench")
        end

        # Runs the block; what the bench cannot do becomes a message and exit status 1.
        #
        # @param command [String]
        # @return [Integer] exit status
        # @scheduling may wait
        def report_errors(command)
          yield
        rescue OptionParser::ParseError => error
          raise UsageError, error.message
        rescue ::Bench::Error, ArgumentError => error
          warn "nb #{command}: #{error.message}"
          1
        end

        private

        def obey(argv)
          options = { rubies: [], yjit: true, session: {} }
          ids = parser(options).parse(argv)
          return list if options[:list]

          ::Bench.select(ids).then { |tables| report(tables, options) }
        end

        def parser(options)
          session = options[:session]
          OptionParser.new do |on|
            on.on("-l", "--list") { options[:list] = true }
            on.on("-q", "--quick") { session[:quick] = true }
            on.on("-n", "--pairs N", Integer) { |count| session[:pairs] = count }
            on.on("-s", "--seconds S", Float) { |seconds| session[:seconds] = seconds }
            on.on("-o", "--only IDS", Array) { |ids| session[:only] = known(ids) }
            on.on("--out DIR") { |path| session[:out] = CLI.folder("--out", path) }
            on.on("--delayd COMMAND") { |line| session[:delayd] = command(line) }
            more(on, options)
          end
        end

        def more(on, options)
          on.on("-r", "--ruby PATH") { |path| options[:rubies] << path }
          on.on("--[no-]yjit") { |yjit| options[:yjit] = yjit }
          on.on("--report DIR") { |directory| options[:report] = directory }
          on.on("--docs") { options[:docs] = true }
        end

        def command(line)
          words = line.split
          return words if words.any?

          raise UsageError, "--delayd: must name a command, got: #{line.inspect}"
        end

        def known(ids)
          strange = ids - ::Bench.runtimes.keys
          return ids if strange.empty? && ids.any?
          raise UsageError, "--only: must name a runtime, got none" if ids.empty?

          raise UsageError, "--only: no runtime #{strange.join(", ")}; known are " \
                            "#{::Bench.runtimes.keys.sort.join(", ")}"
        end

        def list
          ::Bench.tables.each_value do |table|
            puts "#{table.id.ljust(11)} #{table.title}", "#{" " * 12}#{table.question}",
                 "#{" " * 12}#{table.views.map(&:id).join(", ")}; #{length(table)}", ""
          end
          0
        end

        def length(table)
          session = ::Bench::Session
          full, quick = [session::FULL, session::QUICK].map do |usual|
            short = usual == session::QUICK
            steps = ::Bench::Order.steps(table, pairs: usual[:pairs], quick: short)
            ::Bench::Progress.duration(steps.size * (table.lasts || (usual[:seconds] + 1)))
          end
          "about #{full}, quick #{quick}"
        end

        def report(tables, options)
          results, directory, interrupted = results(tables, options)
          ::Bench::Report::Terminal.new($stdout).print(results)
          page = ::Bench::Report::Page.new(results).write(File.join(directory, "index.html"))
          puts "Samples: #{directory}", "Page:    #{page}"
          document(results, directory) if options[:docs]
          interrupted ? INTERRUPTED : 0
        end

        # @return [Array] results, where their samples are, whether the user ended it
        def results(tables, options)
          if options[:report]
            found = ::Bench::Result.load(options[:report])
            found.select! { |result| tables.include?(result.table) }
            return [found, options[:report], false]
          end

          warn_when_busy
          session = ::Bench::Session.new(tables: tables, rubies: rubies(options),
                                         **options[:session])
          [session.run, session.out, session.interrupted]
        end

        def rubies(options)
          paths = options[:rubies].empty? ? [RbConfig.ruby] : options[:rubies]
          paths.map { |path| ::Bench::RubyTarget.new(path, yjit: options[:yjit]) }
        end

        def warn_when_busy
          load = ::Bench::Machine.load_average
          return if load <= ::Bench::Machine::BUSY || ::Bench::Machine.priority

          warn "nb bench: load average is #{load}: other programs use this machine, so numbers " \
               "are doubtful (each sample records the load). As root, `chrt -r 1 nb bench …` " \
               "makes the others wait"
        end

        def document(results, directory)
          root = ::Bench::ROOT
          path = File.join(root, "docs", "BENCHMARKS.md")
          relative = File.expand_path(directory).delete_prefix("#{root}/")
          ::Bench::Report::Markdown.update(path, results, relative)
          puts "Tables:  #{path}"
        end
      end
    end
  end
end
