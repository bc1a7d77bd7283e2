# frozen_string_literal: true

require_relative "../native"
require_relative "dump"

module NB
  # Reports on stderr what stops a loop while others wait for it. A native thread looks at the loops
  # of this process (ext/neverblock/loop/watchdog.c). If one stands still, the report says where,
  # for how long, and what helps. NB_WATCHDOG: unset or 1 means 100 ms; other numbers are
  # milliseconds; 0 is off.
  module Watchdog
    class << self
      # Watches the loops that begin from now on, unless NB_WATCHDOG forbids it.
      #
      # @return [void]
      # @raise [ArgumentError] if NB_WATCHDOG is not a number
      # @api private
      def start
        return if @started

        Native.watch((limit.to_f * 1e9).to_i, *Dump.others)
        @started = true
      end

      # @return [Float, nil] seconds that a loop may stand still; nil: no limit
      # @raise [ArgumentError] if NB_WATCHDOG is not a number
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
