# frozen_string_literal: true

require "io/console"

module NB
  module CLI
    module Top
      # A terminal that one program uses as a whole: an alternate screen, and keys without Enter.
      # The previous content returns whatever ends the block (an exception, a signal), and during
      # Ctrl-Z.
      #
      # @api private
      class Screen
        # Switches to the alternate screen without a cursor, and back.
        ENTER = "\e[?1049h\e[?25l"
        LEAVE = "\e[?25h\e[?1049l"
        # The names of keys that send more than one character.
        KEYS = {"\e[A" => :up, "\e[B" => :down, "\e[C" => :right, "\e[D" => :left,
                "\eOA" => :up, "\eOB" => :down, "\eOC" => :right, "\eOD" => :left,
                "\e[5~" => :page_up, "\e[6~" => :page_down, "\e[H" => :home, "\e[F" => :end,
                "\e[1~" => :home, "\e[4~" => :end, "\e[Z" => :left, "\e" => :escape,
                "\r" => :enter, "\n" => :enter, "\t" => :right}.freeze
        # Signals that end the program, and the one that reports a new terminal size.
        ENDING = %w[INT TERM HUP QUIT].freeze
        # The maximum number of characters of one key, and of keys read at a time.
        KEY = /\e(?:\[[0-9;]*[~A-Za-z]|O[A-Z])|\e|./m
        BYTES = 256
        private_constant :ENTER, :LEAVE, :KEYS, :ENDING, :KEY, :BYTES

        # @param input [IO] the terminal
        # @param output [IO] the same
        def initialize(input = $stdin, output = $stdout)
          @input = input
          @output = output
          @events, @bell = IO.pipe
        end

        # Runs the block on the alternate screen.
        # @return the block's value
        def open
          traps = trap_signals
          enter
          yield self
        ensure
          leave
          traps&.each { |name, handler| trap(name, handler || "DEFAULT") }
          [@events, @bell].each(&:close)
        end

        # @return [Array(Integer, Integer)] rows and columns
        def size
          rows, columns = @output.winsize
          [rows.zero? ? 24 : rows, columns.zero? ? 80 : columns]
        end

        # Shows the lines in one write, so nothing flickers. Each is at most as wide as the screen.
        #
        # @param lines [Array<String>]
        def draw(lines)
          @output.write("\e[H#{lines.map { |line| "#{line}\e[K" }.join("\r\n")}\e[J")
          @output.flush
        end

        # May be called from any thread or signal handler: {#wait} returns the event.
        #
        # @param word [Symbol] one of {EVENTS}
        def ring(word)
          @bell.write_nonblock(EVENTS.fetch(word))
        rescue IO::WaitWritable, IOError
          nil # enough events are pending, or the screen is closed
        end

        # The events that {#ring} takes.
        EVENTS = {quit: "q", resize: "w", stop: "z", data: "d"}.freeze

        # Waits for keys and events.
        #
        # @return [Array<Symbol, String>] keys by their names or characters; :quit, :data, :resize
        # @scheduling always waits
        def wait
          ready, = IO.select([@input, @events])
          [*(told if ready.include?(@events)), *(keys if ready.include?(@input))]
        end

        private

        def told
          names = EVENTS.invert
          words = @events.read_nonblock(BYTES).each_char.map { |character| names[character] }.uniq
          return words unless words.delete(:stop)

          suspend
          words | [:resize]
        end

        def keys
          # Not read_nonblock: the shell uses the terminal, too, and it would stay non-blocking.
          bytes = @input.readpartial(BYTES)
          bytes.force_encoding(Encoding::UTF_8).scrub("").scan(KEY).map { |key| KEYS[key] || key }
        rescue EOFError, Errno::EIO
          [:quit] # the terminal is gone
        end

        def trap_signals
          {**ENDING.to_h { |name| [name, :quit] }, "WINCH" => :resize, "TSTP" => :stop}
            .to_h { |name, word| [name, trap(name) { ring(word) }] }
        end

        def enter
          @mode = @input.console_mode
          @input.console_mode = @mode.dup.tap { |mode| cbreak(mode) }
          @output.write(ENTER)
          @output.flush
        end

        # Keys arrive at once and without echo; Ctrl-C and Ctrl-Z remain signals.
        def cbreak(mode)
          mode.raw!(intr: true)
          mode.echo = false
        end

        def leave
          return unless @mode

          @input.console_mode = @mode
          @output.write(LEAVE)
          @output.flush
        rescue SystemCallError
          nil # the terminal is gone
        end

        # Waits until CONT. The shell gets its terminal back as it was.
        def suspend
          leave
          Process.kill(:STOP, Process.pid)
          enter
        end
      end
    end
  end
end
