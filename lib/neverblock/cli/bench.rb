# frozen_string_literal: true

module NB
  module CLI
    # `nb bench`: measures the published tables again and reports them. The code is in bench/ of the
    # source tree, which is not part of the installed gem.
    module Bench
      # One line for the list of commands.
      SUMMARY = "measure the published tables again, and other runtimes with them"
      # What `nb help bench` prints.
      USAGE = <<~TEXT
        usage: nb bench [ID ...] [options]

        Measures the tables with these IDs and prints them; without IDs, all tables (nb bench --list
        shows them). It also writes every sample and a page. Cells that are compared are measured in
        pairs. It decides after 6, 12 and 20 pairs, and continues only with what is undecided. A
        sample during which other programs use more than 5 % of a core is taken again. Ctrl-C ends
        the session and keeps its samples; --resume continues it. The tables are in a checkout of
        NeverBlock, not in the gem: there, run exe/nb bench after bin/setup.

          -l, --list           list the tables, their questions and how long they take
          -q, --quick          samples of 1 s instead of 5 s, fewer columns, 3 passes (too few for
                               verdicts), and --busy
          -n, --pairs N        N passes over all cells; samples of the same pass make a pair
          -s, --seconds S      minimum length of a sample
          -o, --only IDS       only these runtimes, comma-separated: --only threads,nb
          -w, --where AXIS=V   only these values of an axis: --where connections=64,1000; may be given
                               more than once
          -b, --budget TIME    90s, 12m or 2h: leave out the cells that do not fit in this time, and
                               name them; installing rivals does not count
              --runs N         F1 and F2: the mean of N runs per process (10; the article has 100)
              --maps N         while it measures, raise the machine's vm.max_map_count to N if it is
                               lower (needs root): 100,000 fibers (B1, B2) need 300000
              --resume         measure what the last session in the directory has not measured
              --busy           keep samples during which other programs compute
          -r, --ruby PATH      the Ruby that cells run on (this one); may be given more than once
              --no-yjit        without YJIT (by default with it, if the Ruby has it)
              --out DIR        where samples (JSONL) and page go (bench/results/DATE-HOST, or
                               tmp/bench for a quick run)
              --delayd COMMAND use this delay server; it is started with --port N
              --report DIR     measure nothing; report the samples in DIR, and write their page; may be
                               given more than once, the oldest first: the page goes into the last
              --docs           put the headline numbers into docs/BENCHMARKS.md and COMPARISONS.md
      TEXT
      # The source tree's half of this command.
      HOME = File.expand_path("../../../bench", __dir__)
      # Exit status after Ctrl-C, as in shells.
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

        # Runs the block; a failure of the bench becomes a message and exit status 1.
        #
        # @param command [String]
        # @return [Integer] exit status
        # @raise [UsageError] if the bench has not what was asked for
        # @scheduling may wait
        def report_errors(command)
          yield
        rescue ::Bench::Misuse => error # the name of an argument is that of its option
          raise UsageError, error.message.sub(/\A(?=\w+: )/, "--")
        rescue ::Bench::Error, ArgumentError => error
          CLI.tell "nb #{command}: #{error.message}"
          1
        end

        private

        def obey(argv)
          options = { rubies: [], yjit: true, session: {} }
          ids = parse(argv, options)
          return list if options[:list]

          tables = ::Bench.select(ids)
          where = options[:session].fetch(:where, {})
          ::Bench::Restriction.check(tables, where, named: ids.any?)
          report(tables, options)
        end

        def parse(argv, options)
          session = options[:session]
          CLI.parse(argv) do |on|
            on.on("-l", "--list") { options[:list] = true }
            on.on("-q", "--quick") { session[:quick] = true }
            on.on("-n", "--pairs N", Integer) { |count| session[:pairs] = count }
            on.on("-s", "--seconds S", Float) { |seconds| session[:seconds] = seconds }
            on.on("-o", "--only IDS", Array) { |ids| session[:only] = known(ids) }
            plan(on, session)
            on.on("--out DIR") { |path| session[:out] = CLI.folder("--out", path) }
            on.on("--delayd COMMAND") { |line| session[:delayd] = command(line) }
            more(on, options)
          end
        end

        def plan(on, session)
          on.on("-w", "--where AXIS=V") { |text| (session[:where] ||= {}).store(*axis(text)) }
          on.on("-b", "--budget TIME") { |text| session[:budget] = span(text) }
          on.on("--runs N", Integer) { |count| session[:runs] = count }
          on.on("--maps N", Integer) { |count| session[:maps] = count }
          on.on("--resume") { session[:resume] = true }
          on.on("--busy") { session[:busy] = true }
        end

        def axis(text)
          name, values = text.split("=", 2)
          axes = ::Bench.tables.values.flat_map(&:axes).select { |one| one.name.to_s == name }
          known = axes.flat_map(&:values).map(&:to_s).uniq
          wanted = values.to_s.split(",")
          return [name, wanted] if wanted.any? && (wanted - known).empty?

          found = known.any? ? "#{name} has #{known.join(", ")}" : "no table has the axis #{name}"
          raise UsageError, "--where: must be an axis of a table and its values, such as " \
                            "connections=64,1000, got: #{text.inspect}; #{found}"
        end

        def span(text)
          match = text.match(/\A(\d+(?:\.\d+)?)(s|m|h)\z/)
          return match[1].to_f * { "s" => 1, "m" => 60, "h" => 3600 }.fetch(match[2]) if match

          raise UsageError, "--budget: must be a time such as 90s, 12m or 2h, got: #{text.inspect}"
        end

        def more(on, options)
          on.on("-r", "--ruby PATH") { |path| options[:rubies] << path }
          on.on("--[no-]yjit") { |yjit| options[:yjit] = yjit }
          on.on("--report DIR") { |directory| (options[:report] ||= []) << directory }
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
            count = samples(table, usual[:looks].first, short)
            text = ::Bench::Progress.duration(count * (table.lasts || (usual[:seconds] + 1)))
            "#{text} #{text.count(":") == 1 ? "min" : "h"}"
          end
          "about #{full} for the first look, #{quick} with --quick"
        end

        def samples(table, passes, quick)
          again = passes >= ::Bench::Estimate::FEWEST
          table.groups(quick: quick).product([*0...passes]).sum do |cells, pass|
            ::Bench::Order.pass(table, cells, pass, quick: quick, again: again).size
          end
        end

        def report(tables, options)
          results, directories, interrupted = results(tables, options)
          ::Bench::Report::Terminal.new($stdout).print(results)
          page = ::Bench::Report::Page.new(results).write(File.join(directories.last, "index.html"))
          puts "Samples: #{directories.join(", ")}", "Page:    #{page}"
          document(results, directories) if options[:docs]
          interrupted ? INTERRUPTED : 0
        end

        # @return [Array] the results, the paths of their samples, whether the user interrupted it
        def results(tables, options)
          if options[:report]
            found = ::Bench::Result.load(*options[:report])
            found.select! { |result| tables.include?(result.table) }
            return [found, options[:report], false]
          end

          measure(tables, options)
        end

        def measure(tables, options)
          session = ::Bench::Session.new(tables: tables, rubies: rubies(options),
                                         **options[:session])
          warn_when_busy unless session.busy?
          found = session.run
          session.begun_anew.each { |text| CLI.tell "nb bench: begun anew: #{text}" }
          session.left.each { |text| CLI.tell "nb bench: not measured, no time: #{text}" }
          [found, [session.out], session.interrupted]
        end

        def rubies(options)
          paths = options[:rubies].empty? ? [RbConfig.ruby] : options[:rubies]
          paths.map { |path| ::Bench::RubyTarget.new(path, yjit: options[:yjit]) }
        end

        def warn_when_busy
          load = ::Bench::Machine.load_average
          return if load <= ::Bench::Machine::BUSY || ::Bench::Machine.priority

          CLI.tell "nb bench: load average is #{load}: other programs use this machine, so many " \
                   "samples will be taken again, and in the end make no pair (--busy keeps the " \
                   "first). As root, `chrt -r 1 nb bench …` makes the others wait"
        end

        def document(results, directories)
          root = ::Bench::ROOT
          relative = directories.map { |path| File.expand_path(path).delete_prefix("#{root}/") }
          ::Bench::Report::Markdown::PAGES.each_key do |name|
            path = File.join(root, "docs", name)
            ::Bench::Report::Markdown.update(path, results, relative.join(","))
            puts "Tables:  #{path}"
          end
        end
      end
    end
  end
end
