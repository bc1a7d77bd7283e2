# frozen_string_literal: true

require_relative "../native"
require_relative "dump"

module NB
  # Lists the calls during which a loop's thread waited without asking the loop, so no fiber could
  # run: a method in C that gives up the GVL itself, such as File#flock, a driver without a cure, or
  # a wait of a blocking fiber. Every such call counts, however short. Calls that keep the GVL
  # (JSON, a Regexp) do not appear here; they are reported from 100 ms on (see NB_WATCHDOG).
  #
  # Needs Ruby 3.2, whose threads report when they give up the GVL. `nb run --blocking` prints the
  # list at the end of a script, `nb serve --blocking` at PWR and at the end. A place in the list
  # needs NB.offload, or a driver with a cure.
  #
  # @example What waits outside the loop in a program
  #   NB::BlockingCalls.start
  #   NB.run { NB.async { File.open("lock").flock(File::LOCK_EX) }.wait }
  #   puts NB.blocking_calls
  # @see https://docs.ruby-lang.org/capi/en/master/d4/d9e/thread_8h.html rb_internal_thread_add_event_hook
  module BlockingCalls
    # One place in the program that waited.
    class Call
      # @return [String, nil] "app.rb:12:in `name'"; nil: the places beyond the limit, together
      attr_reader :place
      # @return [String, nil] the method of Ruby or C that it called; nil: none, or unknown
      attr_reader :callee
      # @return [Integer] how often
      attr_reader :count
      # @return [Float] seconds without the GVL, in all
      attr_reader :total
      # @return [Float] seconds of the longest wait
      attr_reader :longest

      # @api private
      def initialize(place, callee, count, total, longest) # rubocop:disable Metrics/ParameterLists
        @place = place
        @callee = callee
        @count = count
        @total = total
        @longest = longest
      end

      # @return [String] one line
      def to_s
        format("%9.2f ms  longest %8.2f ms  %6d times  %s%s", total * 1000, longest * 1000, count,
               place || "(other places)", callee && " (#{callee})")
      end
    end
    # Ruby's own switches between threads take less.
    LEAST = 0.00001

    class << self
      # Records from now on, in every loop of the process, in addition to what was recorded before.
      #
      # @param least [Numeric] seconds; shorter waits are not recorded
      # @return [void]
      # @raise [NotImplementedError] on Ruby 3.1
      # @raise [ArgumentError] for a negative or infinite time
      # @scheduling never waits
      def start(least: LEAST)
        unless (0..3600).cover?(least)
          raise ArgumentError, "least: must be from 0 to 3600 seconds, got: #{least.inspect}"
        end

        raise NotImplementedError, UNAVAILABLE unless available?

        Native.watch_blocking((least * 1e9).to_i, *Dump.others)
      end

      # Stops recording. The list stays.
      #
      # @return [void]
      # @scheduling never waits
      def stop = available? && Native.watch_blocking(nil, *Dump.others)

      # Empties the list.
      #
      # @return [void]
      # @scheduling never waits
      def clear = available? && Native.clear_blocking

      # @return [Array<Call>] one per place, the longest total first
      # @scheduling never waits
      def list
        return [] unless available?

        Native.blocking_calls.map { |call| read(*call) }.sort_by { |call| -call.total }
      end

      # @return [String] the list as text, longest total first, or a line that says it is empty
      # @scheduling never waits
      def report
        found = list.map { |call| "#{call}\n" }
        return "No call of pid #{Process.pid} waited outside the loop.\n" if found.empty?

        "Calls of pid #{Process.pid} that waited outside the loop, so that no fiber ran:\n" +
          found.join
      end

      # @return [Boolean] whether this Ruby reports such waits
      # @scheduling never waits
      def available? = Native.respond_to?(:watch_blocking)

      private

      def read(path, line, label, callee, count, total, longest) # rubocop:disable Metrics/ParameterLists
        Call.new(path && "#{path}:#{line}:in `#{label}'", callee, count, total / 1e9, longest / 1e9)
      end
    end

    # The message of {start} where it is not possible.
    UNAVAILABLE = "the list of blocking calls needs Ruby 3.2 or later: this is #{RUBY_VERSION}, " \
                  "whose threads do not tell when they give up the GVL".freeze
  end
end
