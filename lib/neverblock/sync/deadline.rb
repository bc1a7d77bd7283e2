# frozen_string_literal: true

require "timeout"

module NB
  # The time by which the current fiber must be done. {NB.timeout} sets it, {NB.deadline} returns
  # the time left, and tasks inherit it.
  #
  # A task of a {Group} only knows the deadline: the timeout strikes the group, and the task ends
  # with it. A task of {NB.async} may outlive the block that started it, so the timeout strikes the
  # task as well.
  #
  # @api private
  module Deadline
    KEY = :neverblock_deadline # fiber-local
    private_constant :KEY

    class << self
      # @return [Float, nil] seconds left, 0.0 when the deadline has passed; nil: there is none
      # @scheduling never waits
      # @thread any
      def left
        at = Thread.current[KEY]
        at && [at - now, 0.0].max
      end

      # Timeout.timeout that records its deadline.
      #
      # @param seconds [Numeric] > 0
      # @return the block's value
      # @scheduling may wait
      def within(seconds, error, message, &block)
        outer = Thread.current[KEY]
        at = now + seconds
        Thread.current[KEY] = outer && outer < at ? outer : at
        message ||= error.message if error.is_a?(Exception) # Timeout has a text of its own
        Timeout.timeout(seconds, error, message, &block)
      ensure
        Thread.current[KEY] = outer
      end

      # @return [Proc] the block, for a fiber that inherits this one's deadline
      # @scheduling never waits
      def keep(block)
        at = Thread.current[KEY] or return block

        lambda do
          Thread.current[KEY] = at
          block.call
        end
      end

      # @return [Proc] the block, for a fiber in which this one's deadline raises
      # @scheduling never waits
      def impose(block)
        at = Thread.current[KEY] or return block

        # To Timeout, 0 means no limit.
        -> { within([at - now, Float::MIN].max, nil, nil) { block.call } }
      end

      # @return [Boolean] whether the current fiber has none
      # @scheduling never waits
      def none? = Thread.current[KEY].nil?

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
