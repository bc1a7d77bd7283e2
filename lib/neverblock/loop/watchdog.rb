# frozen_string_literal: true

require_relative "../native"
require_relative "dump"

module NB
  # Says on stderr what stops a loop while others wait for it: a native thread looks at the loops of
  # this process (ext/neverblock/loop/watchdog.c), and for one that stands still tells where, for
  # how long and what helps. NB_WATCHDOG: 1, as if unset, is 100 ms; other numbers are milliseconds;
  # 0 is off.
  module Watchdog
    class << self
      # Has the loops that begin from now on looked at, unless NB_WATCHDOG forbids it.
      #
      # @return [void]
      # @raise [ArgumentError] if NB_WATCHDOG is no number
      # @api private
      def start
        return if @started

        Native.watch((limit.to_f * 1e9).to_i, *Dump.others)
        @started = true
      end

      # @return [Float, nil] seconds that a loop may stand still; nil: for ever
      # @raise [ArgumentError] if NB_WATCHDOG is no number
      # @api private
      def limit
        text = Native::WATCHDOG
        return if text == "0"
        return text == "1" ? 0.1 : text.to_i / 1000.0 if text.match?(/\A[1-9]\d{0,8}\z/)

        raise ArgumentError, "NB_WATCHDOG: must be 1 (report what stops the loop for 100 ms), " \
                             "another number of milliseconds, or 0 (off), got: #{text.inspect}"
      end
    end
  end
end
