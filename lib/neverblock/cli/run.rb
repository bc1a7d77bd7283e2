# frozen_string_literal: true

require_relative "script"

module NB
  module CLI
    # `nb run`: runs a script as ruby would, inside {NB.run}. It parses its arguments by hand and
    # loads little, so the script finds the Ruby it expects.
    module Run
      # One line for the list of commands.
      SUMMARY = "run a Ruby script inside the loop: while a fiber waits, others run"
      # What `nb help run` prints.
      USAGE = <<~TEXT
        usage: nb run [options] SCRIPT [arguments]
               nb run [options] -e CODE [arguments]

        Runs the script as `ruby SCRIPT` would, inside the loop: Fiber.schedule, NB.async and the rest
        work in it, and every wait lets other fibers run. Ends when the script and its fibers have
        ended. SCRIPT may be - for standard input.

          -e CODE         run CODE instead of a script
          -r LIBRARY      require LIBRARY first; may be given again
          -I FOLDER       look for libraries in FOLDER first; may be given again
          -w              print Ruby's warnings
          --backend NAME  epoll, kqueue or poll (NB_BACKEND, or the best available)
          --no-repairs    do not repair Ruby's own defects
          --blocking      at the end, list the calls that waited outside the loop: where, how
                          long, how often (Ruby 3.2)
          --on-interrupt drain
                          at the first INT or TERM take no more work and let running work end; a
                          second signal ends it at once
          --drain-timeout SECONDS
                          maximum time for running work to end (30); 0: end it at once

        SIGQUIT (Ctrl-\\) and SIGPWR (`nb dump PID`) print what every fiber waits for. The script's at_exit
        blocks run after the loop, as plain blocking Ruby.
      TEXT

      # The parsed command line.
      Order = Struct.new(:script, :code, :libraries, :folders, :warnings, :backend, :repairs,
                         :blocking, :on_interrupt, :drain_timeout, :arguments, keyword_init: true)
      private_constant :Order

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status; what the script raises, including SystemExit, passes
        #   through
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          order = read(argv)
          return CLI.start(%w[help run]) unless order

          prepare(order)
          script = order.code ? Script.new("-e", order.code) : Script.read(order.script)
          script.call do |main|
            NB.run(**order.to_h.slice(:backend, :repairs, :on_interrupt, :drain_timeout)) do
              order.libraries.each { |library| require library }
              main.eval
            end
          end
          0
        ensure
          report_blocking if order&.blocking
        end

        private

        def read(argv)
          order = Order.new(libraries: [], folders: [], repairs: true, drain_timeout: 30)
          words = argv.dup
          while words.first&.start_with?("-") && words.first != "-"
            word = words.shift
            break if word == "--"
            return if %w[-h --help].include?(word)

            read_option(order, word, words)
          end
          order.script = words.shift unless order.code
          raise UsageError, "needs a script, or -e CODE" unless order.script || order.code

          order.tap { order.arguments = words }
        end

        def read_option(order, word, words)
          name, given = split(word)
          case name
          when "-e", "-r", "-I" then read_value(order, name, given || value(name, words))
          when "--backend" then order.backend = given || value(name, words)
          when "--on-interrupt" then order.on_interrupt = drain(given || value(name, words))
          when "--drain-timeout"
            order.drain_timeout = CLI.drain_timeout(given || value(name, words))
          else read_switch(order, word)
          end
        end

        def read_switch(order, word)
          case word
          when "-w" then order.warnings = true
          when "--no-repairs" then order.repairs = false
          when "--blocking" then order.blocking = true
          else raise UsageError, "invalid option: #{word}"
          end
        end

        # The option, and the value in the same word, or nil. Without a regular expression, because
        # that refuses words that are invalid in the locale's encoding.
        def split(word)
          return [word[0, 2], (word[2..] if word.size > 2)] unless word.start_with?("--")

          name, equals, value = word.partition("=")
          [name, (value unless equals.empty?)]
        end

        def value(name, words)
          words.shift or raise UsageError, "#{name} needs a value"
        end

        def drain(value)
          return value if value == "drain"

          raise UsageError, "--on-interrupt: must be drain, got: #{value}"
        end

        def read_value(order, name, value)
          case name
          when "-e" then order.code = [order.code, value].compact.join("\n")
          when "-r" then order.libraries << value
          else order.folders << File.expand_path(value)
          end
        end

        def prepare(order)
          CLI.load_loop(order.backend)
          $VERBOSE = true if order.warnings
          $LOAD_PATH.unshift(*order.folders)
          ARGV.replace(order.arguments)
          %w[QUIT PWR].each { |name| NB.dump_on(name) if Signal.list.key?(name) }
          BlockingCalls.start if order.blocking
        rescue NotImplementedError => error
          raise UsageError, "--blocking: #{error.message}"
        end

        def report_blocking
          return unless BlockingCalls.available?

          BlockingCalls.stop
          CLI.tell BlockingCalls.report
        end
      end
    end
  end
end
