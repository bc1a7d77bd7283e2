# frozen_string_literal: true

require_relative "command"

module NB
  class Server
    # The signals of a serving process, from its first instant on: they are kept until somebody
    # receives them. Otherwise a signal during startup, or in a worker just born, would end the
    # process or be lost.
    #
    # Until {.receive} is called, TERM, INT and QUIT end a process that has no clients waiting. They
    # end it at once: an exception would be raised in the middle of any `require`, and RubyGems' own
    # breaks on that.
    #
    # @api private
    module Signals
      # The signals that are handled: macOS has no PWR.
      NAMES = (%w[TERM INT QUIT HUP PWR USR1 USR2 TTIN TTOU] & Signal.list.keys).freeze
      # Those that end the process.
      ENDING = %w[TERM INT QUIT].freeze
      # The variable with the signals that arrived before this program replaced another in its
      # process.
      VARIABLE = "NB_SIGNALS"

      @kept = []

      class << self
        # From now on no signal ends the process by default. Also replaces handlers that others have
        # installed since.
        #
        # @param exits [Boolean] whether a signal to end ends a process that does not receive yet;
        #   otherwise it is kept
        # @return [void]
        def keep(exits: true)
          @exits = exits
          @kept.concat(ENV.delete(VARIABLE).to_s.split(","))
          install
          look_back unless @looked
          leave if exits && @kept.any? { |name| ends?(name) }
        end

        # Calls the block for each signal kept so far, then for each new one, in the main thread.
        #
        # @param also [Array<String>] further signals
        # @yieldparam name [String]
        # @return [void]
        def receive(also: [], &receiver)
          @owner = Process.pid
          @birth = false
          @receiver = receiver
          install(NAMES + also)
          deliver(@kept.shift) until @kept.empty?
        end

        # Runs before a signal ends a process that does not receive yet.
        # @return [void]
        def farewell(&block) = @farewell = block

        # Ends a process that has no clients waiting: at once, whatever it is doing.
        # @return [void]
        def leave
          @farewell&.call
          exit!(0)
        end

        # Forks. Signals to the child are kept until it keeps or receives them itself.
        #
        # @return [Integer] its pid
        def fork(&block)
          @birth = true
          Process.fork(&block)
        ensure
          @birth = false
        end

        # In a child of {.fork}: from now on a signal to end ends it, and signals for masters are
        # dropped.
        #
        # @yieldreturn [Boolean] whether clients wait, so that TERM and INT are kept instead
        # @return [void]
        def born(&stays)
          @receiver = @farewell = nil
          @stays = stays
          @owner = Process.pid # first: otherwise nobody owns it, and it ends by default
          @birth = false
          @kept.keep_if { |name| (ENDING + %w[HUP PWR]).include?(name) }
          keep
        end

        # @param pid [Integer] of a process that runs this program
        # @param untold [Boolean] the answer if /proc does not tell: it is missing, or shows nothing
        #   of other users (hidepid), or there is no such process
        # @return [Boolean] false: a new program is replacing it and does not receive signals yet
        def caught_by?(pid, untold: false)
          caught = File.read("/proc/#{pid}/status")[/^SigCgt:\s*(\h+)/, 1].to_s.hex
          caught[Signal.list.fetch(NAMES.last) - 1] == 1
        rescue SystemCallError
          untold
        end

        # Called before another program replaces this one in its process; received signals are
        # passed on. Until the new program keeps signals itself, those to end end it, and the others
        # are lost. From here on {.caught_by?} is false, which must come first.
        #
        # @param waiting [Array<String>] received and not handled yet
        # @return [Hash{String=>String}] for its environment
        def pass_on(waiting = [])
          Thread.pass # lets Ruby deliver pending signals: the new program would not know of them
          (NAMES - ENDING).each { |name| trap(name, "IGNORE") }
          ENDING.each { |name| trap(name, "SYSTEM_DEFAULT") }
          {VARIABLE => (@kept + waiting).join(",")}
        end

        private

        # The signals that arrived before the first line of the program.
        def look_back
          @looked = true
          fetch_early
          make_good
        end

        # While Ruby creates its first thread, it notes a signal but does not deliver it until the
        # next one arrives. So this sends the next one.
        def fetch_early
          previous = trap("URG") { nil }
          Process.kill("URG", Process.pid) # returns once all noted signals have been delivered
        ensure
          trap("URG", previous || "DEFAULT")
        end

        # While Ruby loads these files it drops exceptions, including a signal's: it starts as if
        # nothing had happened, and some encodings are missing. Nobody knows which signal it was, so
        # it counts as one to end. If others serve, a new start acts on it.
        def make_good
          return if encodings_whole?

          again = !@exits && !@kept.include?("TERM")
          @kept |= %w[TERM]
          exec(pass_on, *Command.words) if again
        end

      # What enc/encdb.so and enc/trans/transdb.so define.
        def encodings_whole?
          Encoding.const_defined?(:UTF_8) &&
            Encoding::Converter.search_convpath("UTF-8", "UTF-16LE").any?
        rescue Encoding::ConverterNotFoundError
          false
        end

        def install(names = NAMES)
          @owner ||= Process.pid
          names.each { |name| trap(name) { deliver(name) } }
        end

        def deliver(name)
          if @owner != Process.pid && !@birth then default(name)
          elsif @receiver && @owner == Process.pid then @receiver.call(name)
          else
            @kept << name
            leave if @exits && @owner == Process.pid && ends?(name)
          end
        end

        def ends?(name) = name == "QUIT" || (ENDING.include?(name) && !@stays&.call)

        # In a process that the application forked, which did not ask for our handlers.
        def default(name)
          trap(name, "DEFAULT")
          Process.kill(name, Process.pid)
        end
      end
    end
  end
end
