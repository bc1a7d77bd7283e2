# frozen_string_literal: true

require_relative "../errors"
require_relative "check"
require_relative "deadline"
require_relative "interruption"

module NB
  # Runs a block until it succeeds: {NB.retry}.
  #
  # @see https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
  # @api private
  class Retrying
    # Pauses double at most so often: twice as much again would be more than a Float can hold.
    DOUBLINGS = 1000
    private_constant :DOUBLINGS

    class << self
      # @param times [Integer] maximum number of runs, 1 or more
      # @param on [Class, Module, Array<Class, Module>] errors after which the block runs again
      # @param wait [Numeric, #call] seconds before the second run, or a callable that returns them
      # @param max_wait [Numeric, nil] seconds
      # @yieldparam attempt [Integer] 1, 2, ...
      # @return the block's value
      # @raise [ArgumentError] before the block has begun
      # @raise [Exception] what the last run raised
      # @scheduling may wait
      def call(times:, on:, wait:, max_wait:)
        times = Check.count("times:", times)
        check_classes(on)
        wait = Check.finite_seconds("wait:", wait) unless wait.respond_to?(:call)
        max_wait = Check.seconds("max_wait:", max_wait)
        attempt = 0
        begin
          yield attempt += 1
        rescue *on => error
          seconds = new(times, wait, max_wait).pause(attempt, error)
          raise unless seconds

          sleep(seconds)
          retry
        end
      end

      private

      def check_classes(on)
        return if on.is_a?(Module) || (on.is_a?(Array) && on.all?(Module))

        one = on.is_a?(Array) ? on.find { |type| !type.is_a?(Module) } : on
        raise ArgumentError, "on: must be a class of exceptions, or several, got: #{one.inspect}"
      end
    end

    # @param times [Integer]
    # @param wait [Numeric, #call] seconds
    # @param max_wait [Numeric, nil] seconds
    def initialize(times, wait, max_wait)
      @times = times
      @wait = wait
      @max_wait = max_wait || Float::INFINITY
    end

    # @param attempt [Integer] the number of the failed run
    # @param error [Exception] that it raised
    # @return [Float, nil] seconds; nil: this error is final
    def pause(attempt, error)
      return if attempt >= @times || Interruption.expired?(error) || ended_by_cancel?(error)

      seconds = seconds_after(attempt, error)
      left = Deadline.left
      seconds unless left && left <= seconds
    end

    private

    # Between half and all of it: callers that failed together do not come back together.
    def seconds_after(attempt, error)
      return Check.finite_seconds("wait:", @wait.call(attempt, error)) if @wait.respond_to?(:call)

      [@wait * (2**[attempt - 1, DOUBLINGS].min), @max_wait].min * (0.5 + (rand / 2))
    end

    # Also finds an error that a library has wrapped in one of its own.
    def ended_by_cancel?(error)
      seen = []
      while error && !seen.include?(error)
        return true if error.is_a?(Cancelled)

        seen << error
        error = error.cause
      end
      false
    end
  end
end
