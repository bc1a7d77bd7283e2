# frozen_string_literal: true

require_relative "command"

module NB
  class Server
    # The signals of a process that serves, from its first instant on: kept until somebody is there
    # to receive them. Without it those that come while the program loads, or in a worker just born,
    # would end the process or be lost.
    #
    # Until {.receive} is called TERM, INT and QUIT end a process that has nobody to look after: at
    # once, since an exception would come out of the middle of any `require`, and RubyGems' does not
    # stand that.
    #
    # @api private
    module Signals
      # What is taken.
      NAMES = %w[TERM INT QUIT HUP PWR USR1 USR2 TTIN TTOU].freeze
      # Those that mean the end.
      ENDING = %w[TERM INT QUIT].freeze
      # Has the names of those that came before this program replaced another in its process.
      VARIABLE = "NB_SIGNALS"

      @kept = []

      class << self
        # From now on none ends the process by its default. Takes them back from whoever has set
        # handlers of its own since.
        #
        # @param exits [Boolean] whether one that means the end ends a process that does not receive
        #   yet; another keeps it
        # @return [void]
        def keep(exits: true)
          @exits = exits
          @kept.concat(ENV.delete(VARIABLE).to_s.split(","))
          install
          look_back unless @looked
          leave if exits && @kept.any? { |name| ends?(name) }
        end

        # Hands over what has come, then what comes, in the main thread.
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

        # What is to be done before a signal ends a process that does not receive yet.
        # @return [void]
        def farewell(&block) = @farewell = block

        # Ends a process that has nobody to look after: at once, from the middle of anything.
        # @return [void]
        def leave
          @farewell&.call
          exit!(0)
        end

        # Forks; what the child gets is kept until it keeps or receives.
        #
        # @return [Integer] its pid
        def fork(&block)
          @birth = true
          Process.fork(&block)
        ensure
          @birth = false
        end

        # In a child of {.fork}: the end ends it from now on; what is for masters is dropped.
        #
        # @yieldreturn [Boolean] whether somebody waits, so that TERM and INT are kept instead
        # @return [void]
        def born(&stays)
          @receiver = @farewell = nil
          @stays = stays
          @owner = Process.pid # first: it is nobody's otherwise, and ends by its default
          @birth = false
          @kept.keep_if { |name| (ENDING + %w[HUP PWR]).include?(name) }
          keep
        end

        # @param pid [Integer] of a process that runs this program
        # @return [Boolean] false: it is just replaced by a new one, which does not get them yet; or
        #   it is gone
        def caught_by?(pid)
          caught = File.read("/proc/#{pid}/status")[/^SigCgt:\s*(\h+)/, 1].to_s.hex
          caught[Signal.list.fetch(NAMES.last) - 1] == 1
        rescue SystemCallError
          false
        end

        # Before another program replaces this one in its process: what has come goes with it. Until
        # that one keeps them, those that mean the end end it, and the others are lost. These first:
        # from here on {.caught_by?} is false.
        #
        # @param waiting [Array<String>] what was received and not done yet
        # @return [Hash{String=>String}] for its environment
        def pass_on(waiting = [])
          Thread.pass # has what has come handed over: the new program would not know of it
          (NAMES - ENDING).each { |name| trap(name, "IGNORE") }
          ENDING.each { |name| trap(name, "SYSTEM_DEFAULT") }
          {VARIABLE => (@kept + waiting).join(",")}
        end

        private

        # What came before the first line of the program.
        def look_back
          @looked = true
          fetch_early
          make_good
        end

        # A signal that comes while Ruby makes its first thread is noted, but nobody is told: it is
        # handed over with the next one. So here is the next one.
        def fetch_early
          previous = trap("URG") { nil }
          Process.kill("URG", Process.pid) # returns when all that were noted have been handed over
        ensure
          trap("URG", previous || "DEFAULT")
        end

        # Ruby drops an exception, and that of a signal too, out of the loading of these: it starts
        # as if nothing had come, and some encodings are not there. Which signal it was nobody
        # knows; one that means the end. Where others serve, a new start acts on it.
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

        # In a process that the application has forked: it did not ask for ours.
        def default(name)
          trap(name, "DEFAULT")
          Process.kill(name, Process.pid)
        end
      end
    end
  end
end
