# frozen_string_literal: true

module NB
  module CLI
    # `nb demo`: the first two tables of the bench in a minute, in the terminal and as a page.
    module Demo
      # One line for the list of commands.
      SUMMARY = "show what it does, in a minute: two tables and a page"
      # What `nb help demo` prints.
      USAGE = <<~TEXT
        usage: nb demo

        Twenty requests to a server that takes a second, then a thousand to one that takes 0 to
        500 ms: one after another, in threads, and in the loop. Needs no network and no other
        service. Takes about a minute and writes tmp/report/index.html. Ctrl-C ends it and keeps what
        is done. The full tables: nb bench
      TEXT
      # The bench, a part of the source tree.
      HOME = File.expand_path("../../../bench", __dir__)
      # What is measured, by whom: the bench knows more clients.
      CLIENTS = { "a3" => %w[blocking nb], "a5" => %w[blocking threads nb] }.freeze
      private_constant :HOME, :CLIENTS

      class << self
        # @param argv [Array<String>] nothing
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          raise UsageError, "takes no argument, got: #{argv.first.inspect}" if argv.any?

          load_bench
          puts "Measuring on #{RUBY_DESCRIPTION[/\Aruby \S+/]}; it takes about a minute.", ""
          sessions = CLIENTS.map { |id, clients| measure(id, clients) }
          results = sessions.flat_map(&:first)
          write_page(results)
          sessions.any? { |_, session| session.interrupted } ? 130 : 0
        rescue ::Bench::Error => error
          warn "nb demo: #{error.message}"
          1
        end

        private

        def load_bench
          require File.join(HOME, "bench")
        rescue LoadError
          raise UsageError, "needs the source tree (#{HOME} is missing): the installed gem has " \
                            "no bench; clone the project and run bin/demo"
        end

        def measure(id, clients)
          session = ::Bench::Session.new(tables: ::Bench.select([id]), rubies: [ruby], quick: true,
                                         pairs: 2, seconds: 0.75, only: clients, progress: progress,
                                         out: File.join(folder, id))
          results = session.run
          ::Bench::Report::Terminal.new($stdout).print(results)
          [results, session]
        end

        # A status line in a terminal; in a log, a line for each step.
        def progress
          progress = ::Bench::Progress.new
          return progress if $stderr.tty?

          progress.tap { |one| one.define_singleton_method(:show) { |text| warn("  #{text}") } }
        end

        # YJIT only where Ruby itself calls it ready.
        def ruby = ::Bench::RubyTarget.new(yjit: RUBY_VERSION >= "3.2")

        def write_page(results)
          lead = "A first look: one short sample per number, so a busy machine shows. " \
                 "The full tables, with more clients and intervals, come from nb bench."
          page = ::Bench::Report::Page.new(results, title: "NeverBlock in a minute", lead: lead)
          puts "Page: #{page.write(File.join(folder, "index.html"))}"
        end

        def folder = File.join(::Bench::ROOT, "tmp", "report")
      end
    end
  end
end
