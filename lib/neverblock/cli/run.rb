# frozen_string_literal: true

require_relative "script"

module NB
  module CLI
    # `nb run`: runs a script as ruby would, inside {NB.run}. Its words are read by hand and little
    # is loaded, so that the script finds the Ruby it expects.
    module Run
      # One line for the list of commands.
      SUMMARY = "run a Ruby script inside the loop: its waits let its other fibers run"
      # What `nb help run` prints.
      USAGE = <<~TEXT
        usage: nb run [options] SCRIPT [arguments]
               nb run [options] -e CODE [arguments]

        Runs the script as `ruby SCRIPT` would, inside the loop: Fiber.schedule, NB.async and the rest
        work in it, and every wait lets other fibers run. Ends when the script and its fibers have.
        SCRIPT may be - for standard input.

          -e CODE         run this instead of a script
          -r LIBRARY      require it first; may be given again
          -I FOLDER       look for libraries there first; may be given again
          -w              print Ruby's warnings
          --backend NAME  epoll or poll; else NB_BACKEND, else the best there is
          --no-repairs    leave Ruby's own holes as they are

        SIGQUIT (Ctrl-\\) prints what every fiber waits for. What a script leaves to at_exit runs after
        the loop, as plain blocking Ruby.
      TEXT

      # What a command line asks for.
      Order = Struct.new(:script, :code, :libraries, :folders, :warnings, :backend, :repairs,
                         :arguments, keyword_init: true)
      private_constant :Order

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status; what the script raises, also by `exit`, passes through
        # @raise [UsageError]
        # @scheduling always waits
        def run(argv)
          order = read(argv)
          return CLI.start(%w[help run]) unless order

          prepare(order)
          script = order.code ? Script.new("-e", order.code) : Script.read(order.script)
          script.call do |main|
            NB.run(backend: order.backend, repairs: order.repairs) do
              order.libraries.each { |library| require library }
              main.eval
            end
          end
          0
        end

        private

        def read(argv)
          order = Order.new(libraries: [], folders: [], repairs: true)
          words = argv.dup
          while words.first&.match?(/\A-./)
            word = words.shift
            break if word == "--"
            return if %w[-h --help].include?(word)

            read_option(order, word, words)
          end
          order.script = words.shift unless order.code
          raise UsageError, "names no script" unless order.script || order.code

          order.tap { order.arguments = words }
        end

        def read_option(order, word, words)
          case word
          when /\A-([erI])(.+)?/m then read_value(order, $1, $2 || value(word, words))
          when "-w" then order.warnings = true
          when "--no-repairs" then order.repairs = false
          when /\A--backend(?:=(.+))?\z/ then order.backend = $1 || value(word, words)
          else raise UsageError, "invalid option: #{word}"
          end
        end

        def value(word, words)
          words.shift or raise UsageError, "#{word} needs a value"
        end

        def read_value(order, letter, value)
          case letter
          when "e" then order.code = [order.code, value].compact.join("\n")
          when "r" then order.libraries << value
          else order.folders << File.expand_path(value)
          end
        end

        def prepare(order)
          require_relative "../../neverblock"
          $VERBOSE = true if order.warnings
          $LOAD_PATH.unshift(*order.folders)
          ARGV.replace(order.arguments)
          NB.dump_on("QUIT")
        end
      end
    end
  end
end
