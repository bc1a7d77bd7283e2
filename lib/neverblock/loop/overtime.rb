# frozen_string_literal: true

require_relative "../native"

module NB
  # Ends blocks of Timeout.timeout that compute beyond their deadline: the loop ends those that
  # wait, but does not turn while a fiber computes. One thread for all loops, from the first timeout
  # on, as Ruby's own Timeout has one. It gets its turn at the end of the computing thread's, so up
  # to 100 ms late, as there.
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
          loop { Native.overtime }
        end
      end
    end
  end
end
