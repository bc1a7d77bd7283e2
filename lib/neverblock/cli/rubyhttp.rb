# frozen_string_literal: true

require "optparse"
require_relative "iotest_options"
require_relative "rubyhttp_sites"
require_relative "rubyhttp_clients"
require_relative "../../neverblock"
require_relative "terminal"

module NB
  module CLI
    # `nb rubyhttp`: downloads a file from five sites with several ways of reading, and writes the
    # thirteen columns of the study of 2008.
    module Rubyhttp
      # One line for the list of commands.
      SUMMARY = "download by several ways of Net::HTTP; print what each costs as CSV"
      # What `nb help rubyhttp` prints.
      USAGE = <<~TEXT
        usage: nb rubyhttp [options]               CSV to standard output
               nb rubyhttp combine FILE.csv ...    several files as one

        Downloads from five sites on this machine, each with its own speed (dallas unlimited, washdc
        40 MB/s, chicago 20, seattle 10, london 5), with Net::HTTP as it is and with the ways of filling
        its buffer that the study of 2008 compared.

          -l, --length BYTES   length of a file (10m = 10,000,000; 10M = 10 * 2**20)
          -i, --impl NAMES     only these, with commas between
          -S, --site NAMES     only these, with commas between
          -q, --quiet          no progress on standard error

        Compare Total CPU Time: "% CPU usage" divides by elapsed time, so a slow site seems to cost less.
      TEXT
      # Of the study.
      COLUMNS = ["Site", "Impl", "KBytes Transferred", "KBytes/second", "Chunk count",
                 "Mean chunk size", "Min chunk size", "Max chunk size", "User Time", "System Time",
                 "Total CPU Time", "Clock time", "% CPU usage"].freeze

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling may wait
        def run(argv)
          return combine(argv.drop(1)) if argv.first == "combine"

          options = parse(argv)
          CLI.load_loop
          puts COLUMNS.join(",")
          RubyhttpSites.open(options[:length], options[:sites]) do |ports|
            ports.to_a.product(options[:impls]).each do |(site, port), impl|
              $stderr.print "\r\e[K#{site} #{impl}" if options[:progress]
              puts row(site, impl, port).join(",")
            end
          end
          $stderr.print "\r\e[K" if options[:progress]
          0
        end

        # One download.
        #
        # @param site [String]
        # @param impl [String] of {RubyhttpClients::VARIANTS}
        # @param port [Integer]
        # @return [Array] as {COLUMNS}
        # @scheduling may wait
        def row(site, impl, port)
          sizes = []
          before = Process.times
          started = clock
          RubyhttpClients.get(impl, port) { |chunk| sizes << chunk.bytesize }
          seconds = clock - started
          after = Process.times
          [site, impl, *amounts(sizes, seconds),
           *times(after.utime - before.utime, after.stime - before.stime, seconds)]
        end

        private

        def amounts(sizes, seconds)
          kilobytes = sizes.sum / 1024.0
          [kilobytes.round(1), (kilobytes / seconds).round(1), sizes.size,
           (sizes.sum / sizes.size.clamp(1, nil).to_f).round(1), sizes.min.to_i, sizes.max.to_i]
        end

        def times(user, system, seconds)
          total = user + system
          [user.round(6), system.round(6), total.round(6), seconds.round(6),
           (total / seconds * 100).round(2)]
        end

        def parse(argv)
          options = { length: 10_000_000, sites: RubyhttpSites::ALL.keys,
                      impls: RubyhttpClients::VARIANTS.keys, progress: Terminal.live?($stderr) }
          rest = parser(options).parse(argv)
          raise UsageError, "takes no argument, got: #{rest.first.inspect}" if rest.any?

          options
        rescue OptionParser::ParseError => error
          raise UsageError, error.message
        end

        def parser(options)
          OptionParser.new do |on|
            on.on("-l", "--length BYTES") { |text| options[:length] = IotestOptions.bytes(text) }
            { impls: ["-i", "--impl NAMES"], sites: ["-S", "--site NAMES"] }.each do |key, words|
              on.on(*words, Array) { |names| options[key] = known(names, options[key]) }
            end
            on.on("-q", "--quiet") { options[:progress] = false }
          end
        end

        def known(names, all)
          strange = names - all
          return names if strange.empty? && names.any?

          raise UsageError, "unknown: #{strange.join(", ").inspect}; known are #{all.join(", ")}"
        end

        def combine(paths)
          raise UsageError, "combine needs files" if paths.empty?

          rows = paths.flat_map do |path|
            lines(path).map { |line| "#{File.basename(path, ".csv")},#{line}" }
          end
          puts ["File", *COLUMNS].join(","), *rows
          0
        end

        def lines(path)
          header, *lines = File.readlines(path, chomp: true)
          return lines if header == COLUMNS.join(",")

          raise UsageError, "#{path} was not written by nb rubyhttp"
        rescue SystemCallError => error
          raise UsageError, error.message
        end

        def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
