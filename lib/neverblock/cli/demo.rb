# frozen_string_literal: true

require "fileutils"
require_relative "terminal"

module NB
  module CLI
    # `nb demo`: the first two tables of the bench in a minute, on the terminal and as a page.
    module Demo
      # One line for the list of commands.
      SUMMARY = "show in a minute what NeverBlock does: two tables and a page"
      # What `nb help demo` prints.
      USAGE = <<~TEXT
        usage: nb demo [rails [--pages N] [--shop]] [--out FOLDER]

        nb demo sends twenty requests to a server that takes a second, then a thousand to one that
        takes 0 to 500 ms: one after another, in threads, and in the loop. It needs no network and no
        other service, takes about a minute, and writes a page, index.html, into tmp/report or FOLDER.
        Ctrl-C ends it and keeps the results so far. nb bench measures the full tables.

        nb demo rails runs the Rails shop of examples/rails under Puma with threads and under
        NeverBlock at the same time, and requests N pages (400) from each; --shop only serves the shop.

        Both need a checkout of NeverBlock: run bin/demo there.
      TEXT
      # The measurements and the clients; the bench has more clients.
      CLIENTS = { "a3" => %w[blocking nb], "a5" => %w[blocking threads nb] }.freeze
      # The maximum number of pages: more than an hour of them.
      PAGES = 1_000_000
      private_constant :CLIENTS, :PAGES

      class << self
        # @param argv [Array<String>] must be empty
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          rails = argv.first == "rails"
          options = parse(rails ? argv.drop(1) : argv, rails)
          bench = CLI.command("bench")
          bench.load_tree
          folder = CLI.folder("--out", options.delete(:folder) || report_folder(rails))
          bench.report_errors("demo") { rails ? show_rails(folder, **options) : show(folder) }
        end

        private

        def parse(argv, rails)
          options = {}
          rest = CLI.parse(argv) do |on|
            on.on("--out FOLDER") { |path| options[:folder] = path }
            next unless rails

            on.on("--pages N", Integer) { |count| options[:pages] = count }
            on.on("--shop") { options[:shop] = true }
          end
          raise UsageError, "--pages: must be from 1 to #{PAGES}, got: #{options[:pages]}" unless
            (1..PAGES).cover?(options.fetch(:pages, 1))
          return options if rest.empty?

          raise UsageError, "takes rails or nothing, and --out FOLDER; got: " \
                            "#{rest.join(" ").inspect}"
        end

        def report_folder(rails)
          File.join(::Bench::ROOT, "tmp", "report", *("rails" if rails))
        end

        def show_rails(folder, shop: false, **options)
          require_relative "demo_rails"
          demo = DemoRails.new(folder: folder, **options)
          shop ? demo.shop : demo.run
        end

        def show(folder)
          puts "Measuring on #{RUBY_DESCRIPTION[/\Aruby \S+/]}; it takes about a minute.", ""
          results = []
          interrupted = CLIENTS.any? do |id, clients|
            measure(id, clients, results, out: File.join(folder, id))
          end
          write_page(results, folder)
          interrupted ? 130 : 0
        end

        # @return [Boolean] whether the user ended it
        def measure(id, clients, results, out:)
          FileUtils.rm_rf(out) # the samples of an earlier demo
          session = ::Bench::Session.new(tables: ::Bench.select([id]), rubies: [ruby], out: out,
                                         quick: true, pairs: 2, seconds: 0.5, only: clients,
                                         progress: progress)
          found = session.run
          ::Bench::Report::Terminal.new($stdout).print(found)
          results.concat(found)
          session.interrupted
        end

        # On a terminal a status line; in a log one line per step.
        def progress
          progress = ::Bench::Progress.new
          return progress if Terminal.live?($stderr)

          progress.tap { |one| one.define_singleton_method(:show) { |text| CLI.tell("  #{text}") } }
        end

        # YJIT, if Ruby itself calls it ready.
        def ruby = ::Bench::RubyTarget.new(yjit: RUBY_VERSION >= "3.2")

        def write_page(results, folder)
          lead = "A first look: one short sample per number, so other work on the machine " \
                 "distorts them. The full tables, with more clients and intervals, come from " \
                 "nb bench."
          page = ::Bench::Report::Page.new(results, title: "NeverBlock in a minute", lead: lead,
                                                    claims: false) # too few samples for verdicts
          puts "Page: #{page.write(File.join(folder, "index.html"))}"
        end
      end
    end
  end
end
