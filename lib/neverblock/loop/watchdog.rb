# frozen_string_literal: true

require_relative "../native"
require_relative "dump"
require_relative "fork"

module NB
  # Says on stderr what stops a loop: a thread that looks at the loops of this process, and for one
  # that stands still tells where, for how long and what helps. Only with NB_WATCHDOG: 1 is 100 ms,
  # other numbers are milliseconds, 0 is off.
  module Watchdog
    MINUTE = 60.0
    PLACES = 1000
    private_constant :MINUTE, :PLACES

    class << self
      # @return [Thread, nil] nil while nobody looks
      # @api private
      attr_reader :thread

      # Begins to look, unless it does already; a forked child has to begin again.
      #
      # @return [void]
      # @raise [ArgumentError] if NB_WATCHDOG is no number
      # @api private
      def start
        return if @thread&.alive?

        limit = self.limit or return
        @places = {}
        @thread = Thread.new do
          Thread.current.report_on_exception = false
          loop { Native.watch((limit * 1e9).to_i)&.then { |stall| report(*stall) } }
        end
        @thread.name = "neverblock watchdog"
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

      private

      # No error of stderr's may end it.
      def report(frames, seconds, computed)
        place = Dump.place(frames.to_a)
        unreported = count(place)
        warn("#{text(place, seconds, computed)}#{unreported}") if unreported
      rescue SystemCallError, IOError
        nil
      end

      # What to say of those at this place since its last report; nil: not to report yet.
      def count(place)
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @places.clear if @places.size >= PLACES
        reported, unreported = @places[place]
        if reported && now - reported < MINUTE
          @places[place][1] += 1
          return
        end
        @places[place] = [now, 0]
        unreported.to_i.zero? ? "" : " (#{unreported} more there since the last report)"
      end

      def text(place, seconds, computed)
        computes = computed * 2 > seconds
        cure = computes ? "NB.in_process { }" : "NB.offload { }"
        ms = (seconds * 1000).round
        "NeverBlock: the loop of pid #{Process.pid} has stood still for #{ms} ms at #{place}: it " \
          "#{computes ? "computes" : "waits outside of the loop"}. #{cure} may help; see " \
          "docs/TROUBLESHOOTING.md"
      end
    end

    Fork.in_child { start if @thread && Fiber.scheduler }
  end
end
