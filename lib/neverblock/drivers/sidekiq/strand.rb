# frozen_string_literal: true

require_relative "../../sync/interruption"

module NB
  module Drivers
    module Sidekiq
      # What a processor takes for its thread: a fiber of a {Crew}, which may not have begun yet.
      class Strand
        # @param block [#call] what it runs
        # @api private
        def initialize(block)
          @block = block
          @ended = Thread::Queue.new
          @lock = Thread::Mutex.new
        end

        # Runs the block in the fiber that calls it.
        # @return [void]
        # @api private
        def run
          @lock.synchronize do
            @scheduler = Fiber.scheduler
            @fiber = Fiber.current
          end
          @block.call
        rescue Exception # rubocop:disable Lint/RescueException -- Sidekiq's watchdog reports it
          nil
        ensure
          @lock.synchronize { @fiber = nil }
          @ended.close
        end

        # The same as Thread#raise: the fiber's current wait raises it, or else its next one.
        # @param error [Class, Exception]
        # @return [void]
        # @thread any
        # @api private
        def raise(error)
          @lock.synchronize do
            Interruption.deliver(@scheduler, @fiber, error.exception) if @fiber
          end
        end

        # Waits for the end, as Thread#value does.
        # @return [nil]
        # @scheduling may wait
        # @thread any
        # @api private
        def value = @ended.pop
      end
    end
  end
end
