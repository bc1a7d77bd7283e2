# frozen_string_literal: true

require_relative "terminal"
require_relative "top/feed"
require_relative "top/screen"
require_relative "top/view"

module NB
  module CLI
    # `nb top`: shows what a server does, refreshed every second.
    module Top
      # One line for the list of commands.
      SUMMARY = "show the requests, fibers, pools and stalls of a running server, live"
      # What `nb help top` prints.
      USAGE = <<~TEXT
        usage: nb top [options] ADDRESS

        Shows what a server does now, even while its loop stands still. ADDRESS is its control socket,
        such as unix:///run/app.control of `nb serve --control unix:///run/app.control`.

              --once          print all lists as text and end
              --json          print each snapshot as a line of JSON, with the rates per second
              --interval S    seconds between two snapshots, 0.1 to 3600 (1)

        Keys: Tab or 1-5 chooses a list (requests, fibers, pools, workers, stalls), the arrows a row;
        Enter shows the row's backtrace, s sorts by the next column, r reverses the order, p pauses,
        ? shows help, q quits. The exit status of --once is 1 if nothing answers.
      TEXT

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError, Failure]
        def run(argv)
          options = {interval: 1.0}
          rest = parse(argv, options)
          raise UsageError, "needs the address of a control socket" if rest.empty?
          raise UsageError, "takes one address, got: #{rest.join(" ")}" if rest.size > 1

          show(rest.first, options)
        rescue ArgumentError => error
          raise UsageError, error.message
        end

        private

        def parse(argv, options)
          CLI.parse(argv) do |parser|
            parser.on("--once") { options[:once] = true }
            parser.on("--json") { options[:json] = true }
            parser.on("--interval S", Float) do |seconds|
              (0.1..3600).cover?(seconds) or
                raise UsageError, "--interval: must be seconds from 0.1 to 3600, got: #{seconds}"

              options[:interval] = seconds
            end
          end
        end

        def show(address, options)
          feed = Feed.new(address, options[:interval])
          first = feed.ask
          return print_json(feed, options) if options[:json]
          return print_once(feed, address, options) if options[:once]

          live(feed, address, first)
        end

        # Takes two: the second one has rates.
        def print_once(feed, address, options)
          sleep options[:interval]
          colors = Terminal.colors?($stdout)
          view = View.new(address, styled: colors, colors: colors)
          view.update(feed.ask)
          width = [Terminal.width($stdout, unknown: 120), 20].max
          Lists.all.size.times do |index|
            view.press((index + 1).to_s)
            lines = view.lines(nil, width)
            lines = ["", *lines.drop_while { |line| !line.include?("[") }] if index > 0
            puts(*lines.map(&:rstrip))
          end
          0
        end

        def print_json(feed, options)
          $stdout.sync = true
          loop do
            sleep options[:interval]
            sample = feed.ask
            puts JSON.generate(sample.snapshot.merge(rates: sample.rates.to_h))
            return 0 if options[:once]
          end
        end

        def live(feed, address, first)
          unless $stdin.tty? && Terminal.live?($stdout)
            raise Failure, "needs a terminal that can move the cursor; use --once or --json instead"
          end

          view = View.new(address, colors: Terminal.colors?($stdout))
          view.update(first)
          Screen.new.open { |screen| watch(screen, feed, view) }
          0
        end

        def watch(screen, feed, view)
          samples = Queue.new
          thread = feed.run do |sample|
            samples << sample
            screen.ring(:data)
          end
          loop do
            rows, width = screen.size
            screen.draw(view.lines(rows, width))
            words = screen.wait
            view.update(samples.pop) until samples.empty?
            return if words.any? { |word| word == :quit || view.press(word) == :quit }
          end
        ensure
          thread&.kill
        end
      end
    end
  end
end
