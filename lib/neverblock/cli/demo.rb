# frozen_string_literal: true

require "fileutils"

module NB
  module CLI
    # `nb demo`: the first two tables of the bench in a minute, in the terminal and as a page.
    module Demo
      # One line for the list of commands.
      SUMMARY = "show what it does, in a minute: two tables and a page"
      # What `nb help demo` prints.
      USAGE = <<~TEXT
        usage: nb demo [--out FOLDER]

        Twenty requests to a server that takes a second, then a thousand to one that takes 0 to
        500 ms: one after another, in threads, and in the loop. Needs no network and no other
        service. Takes about a minute and writes a page, index.html in tmp/report or FOLDER. Ctrl-C
        ends it and keeps what is done. The full tables: nb bench
      TEXT
      # What is measured, by whom: the bench knows more clients.
      CLIENTS = { "a3" => %w[blocking nb], "a5" => %w[blocking threads nb] }.freeze
      private_constant :CLIENTS

      class << self
        # @param argv [Array<String>] nothing
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          folder = folder(*argv)
          bench = CLI.command("bench")
          bench.load_tree
          bench.report_errors("demo") { show(folder || File.join(::Bench::ROOT, "tmp", "report")) }
        end

        private

        def folder(option = nil, folder = nil, *rest)
          return if option.nil?
          return folder if option == "--out" && folder && rest.empty?

          raise UsageError, "takes --out FOLDER and nothing else, got: " \
                            "#{[option, folder, *rest].compact.join(" ").inspect}"
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
          FileUtils.rm_rf(out) # samples of an earlier demo
          session = ::Bench::Session.new(tables: ::Bench.select([id]), rubies: [ruby], out: out,
                                         quick: true, pairs: 2, seconds: 0.5, only: clients,
                                         progress: progress)
          found = session.run
          ::Bench::Report::Terminal.new($stdout).print(found)
          results.concat(found)
          session.interrupted
        end

        # A status line in a terminal; in a log, a line for each step.
        def progress
          progress = ::Bench::Progress.new
          return progress if $stderr.tty?

          progress.tap { |one| one.define_singleton_method(:show) { |text| warn("  #{text}") } }
        end

        # YJIT only where Ruby itself calls it ready.
        def ruby = ::Bench::RubyTarget.new(yjit: RUBY_VERSION >= "3.2")

        def write_page(results, folder)
          lead = "A first look: one short sample per number, so a busy machine shows. " \
                 "The full tables, with more clients and intervals, come from nb bench."
          page = ::Bench::Report::Page.new(results, title: "NeverBlock in a minute", lead: lead)
          puts "Page: #{page.write(File.join(folder, "index.html"))}"
        end
      end
    end
  end
end
