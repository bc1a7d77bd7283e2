# frozen_string_literal: true

require "json"
require_relative "iotest_options"
require_relative "rubyhttp_cell"
require_relative "rubyhttp_findings"
require_relative "rubyhttp_sites"
require_relative "terminal"

module NB
  module CLI
    # `nb rubyhttp`: downloads a file from five sites with several clients, and writes the thirteen
    # columns of the study of 2008.
    module Rubyhttp
      # One line for the list of commands.
      SUMMARY = "download with several HTTP clients; print what each costs as CSV"
      # What `nb help rubyhttp` prints.
      USAGE = <<~TEXT
        usage: nb rubyhttp [options]                CSV to standard output
               nb rubyhttp combine FILE.csv ...     several files as one
               nb rubyhttp findings FILE.csv ...    which findings of 2008 still hold
               nb rubyhttp chart FILE.csv ... [-o PAGE.html]

        Downloads from five sites on this machine, each with its own speed (dallas unlimited, washdc
        40 MB/s, chicago 20, seattle 10, london 5). Each client first makes one download that is not
        measured. Of several downloads, the row shows the one with the median CPU time.

          -l, --length BYTES   length of a file (10m = 10,000,000; 10M = 10 * 2**20)
          -i, --impl NAMES     only these, comma-separated. `ways`: those of Net::HTTP that the study
                               compared, and some more. `clients`: the other HTTP clients whose gems
                               are installed, and the program curl. `all`: both
          -S, --site NAMES     only these, comma-separated
          -w, --world NAMES    blocking, thread, nb or async: what each download runs in
          -n, --repeat N       downloads per row (1)
          -J, --json           JSON, one object per line, with objects and bytes allocated and the
                               time in the garbage collector
              --calls          with --json: count system calls, too (needs strace)
          -q, --quiet          no progress on standard error

        Compare Total CPU Time: "% CPU usage" divides by elapsed time, so a slow site seems to cost less.
        The CPU time of curl includes the start of a program: with -l 1g its share is small, and
        `nb bench g2` subtracts it.
      TEXT
      # The default output file of `chart`.
      PAGE = "tmp/rubyhttp/index.html"
      # The site without a speed limit, for everything that is not measured.
      FAST = "dallas"
      # The maximum number of repetitions of a download.
      REPEATS = (1..1000).freeze
      # Subcommands that read files.
      COMMANDS = %w[combine findings chart].freeze
      private_constant :PAGE, :FAST, :REPEATS, :COMMANDS

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling may wait
        def run(argv)
          command, *rest = argv
          return send(command, rest) if COMMANDS.include?(command)

          options = parse(argv)
          CLI.load_loop
          measure(options)
          0
        end

        private

        def measure(options)
          cells = cells(options)
          puts RubyhttpCell::COLUMNS.join(",") unless options[:json]
          RubyhttpSites.open(options[:length], options[:sites] | [FAST]) do |ports|
            cells.each do |cell|
              progress(options, cell.name) { cell.warm_up(ports[FAST]) }
              counts = options[:json] ? count(cell, ports[FAST], options) : {}
              options[:sites].each do |site|
                row = progress(options, cell.name, site) { cell.measure(site, ports.fetch(site)) }
                print_row(options, row.merge(counts))
              end
            end
          end
        end

        def cells(options)
          options[:impls].product(options[:worlds]).map do |impl, world|
            RubyhttpCell.new(impl, world: world, repeat: options[:repeat])
          end
        end

        def count(cell, port, options)
          cell.count(port, bytes: options[:length], calls: options[:calls])
        end

        def progress(options, *words)
          return yield unless options[:progress]

          $stderr.print "\r\e[K#{words.join(", ")}"
          yield.tap { $stderr.print "\r\e[K" }
        end

        def print_row(options, row)
          puts options[:json] ? JSON.generate(row) : row.values_at(*RubyhttpCell::COLUMNS).join(",")
          $stdout.flush
        end

        def parse(argv)
          options = { length: 10_000_000, sites: RubyhttpSites::ALL.keys, repeat: 1,
                      impls: impls(%w[ways]), worlds: %w[blocking],
                      progress: Terminal.live?($stderr) }
          rest = read(argv, options)
          raise UsageError, "takes no argument, only combine, findings or chart with files; got: " \
                            "#{rest.first.inspect}" if rest.any?
          raise UsageError, "--calls: only with --json, CSV has the study's columns" if
            options[:calls] && !options[:json]

          options
        end

        def read(argv, options)
          CLI.parse(argv) do |on|
            on.on("-l", "--length BYTES") do |text|
              options[:length] = IotestOptions.bytes("-l", text)
            end
            on.on("-i", "--impl NAMES", Array) { |names| options[:impls] = impls(names) }
            on.on("-S", "--site NAMES", Array) do |names|
              options[:sites] = known("-S", names, RubyhttpSites::ALL.keys)
            end
            on.on("-w", "--world NAMES", Array) { |names| options[:worlds] = worlds(names) }
            on.on("-n", "--repeat N") { |text| options[:repeat] = repeat(text) }
            on.on("-J", "--json") { options[:json] = true }
            on.on("--calls") { options[:calls] = true }
            on.on("-q", "--quiet") { options[:progress] = false }
          end
        end

        def known(option, names, all)
          strange = names - all
          return names.uniq if strange.empty? && names.any?

          raise UsageError, "#{option}: unknown: #{strange.join(", ").inspect}; known are " \
                            "#{all.join(", ")}"
        end

        # Of a group, takes the available ones; a single name must be available.
        def impls(names)
          groups = RubyhttpClients::GROUPS
          chosen = known("-i", names, [*RubyhttpClients::NAMES, *groups.keys]).flat_map do |name|
            next groups[name].reject { |one| RubyhttpClients.missing(one) } if groups.key?(name)

            reason = RubyhttpClients.missing(name)
            reason ? raise(UsageError, "-i #{name}: #{reason}") : name
          end
          chosen.uniq
        end

        def worlds(names)
          known("-w", names, RubyhttpCell::WORLDS.keys).each do |name|
            reason = RubyhttpCell.missing(name)
            raise UsageError, "-w #{name}: #{reason}" if reason
          end
        end

        def repeat(text)
          count = Integer(text, 10, exception: false)
          return count if REPEATS.cover?(count)

          raise UsageError, "-n: must be a number from #{REPEATS.min} to #{REPEATS.max}, got: " \
                            "#{text.inspect}"
        end

        def combine(paths)
          print results("combine", paths).to_csv
          0
        end

        def findings(paths)
          results = results("findings", paths)
          results.files.each do |file|
            puts "#{file}:" if results.files.size > 1
            RubyhttpFindings.new(results, file).all.each { |finding| puts finding.line }
          end
          0
        end

        def chart(words)
          require_relative "rubyhttp_page"
          page = PAGE
          paths = CLI.parse(words) { |on| on.on("-o", "--out PAGE.html") { |path| page = path } }
          puts "Page: #{RubyhttpPage.new(results("chart", paths)).write(page)}"
          0
        end

        def results(command, paths)
          raise UsageError, "#{command} needs files" if paths.empty?

          RubyhttpResults.new(paths)
        end
      end
    end
  end
end
