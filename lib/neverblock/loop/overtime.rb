# frozen_string_literal: true

require_relative "../native"
require_relative "io_users"

module NB
  # Ends blocks of Timeout.timeout that compute beyond their deadline. The loop itself ends blocks
  # that wait, but does not turn while a fiber computes. One thread serves all loops, from the first
  # timeout on, as in Ruby's own Timeout. It gets its turn when the computing thread's time slice
  # ends, so it may be 100 ms late, as there.
  module Overtime
    class << self
      # @return [Thread, nil] nil before the first timeout
      # @api private
      attr_reader :thread

      # @return [void]
      # @api private
      def start
        Thread.new do
          (@thread = Thread.current).name = "neverblock overtime"
          IOUsers.only(:none)
          loop { Native.overtime }
        end
      end
    end
  end
end
