# frozen_string_literal: true

require_relative "../../sync/interruption"
require_relative "../job_stop"

module NB
  module Drivers
    module Sidekiq
      # What a processor takes for its thread: a fiber of a {CapsuleLoop}, perhaps not begun yet.
      class ProcessorFiber
        # @param replace [#call] is called once the loop's thread has ended under the block
        # @yield in the fiber
        # @api private
        def initialize(replace, &block)
          @replace = replace
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
          @done = true
        rescue Exception # rubocop:disable Lint/RescueException -- Sidekiq's watchdog reports it
          @done = true
          nil
        ensure
          @lock.synchronize { @fiber = nil }
          @ended.close
        end

        # Has another one started in its place, if its block was broken off by the end of a thread:
        # then Sidekiq does not know of it.
        # @return [void]
        # @api private
        def over
          return if @done

          @ended.close
          @replace.call
        end

        # The same as Thread#raise: the fiber's current wait raises it, or else its next one.
        # @param error [Class, Exception]
        # @return [void]
        # @thread any
        # @api private
        def raise(error)
          @lock.synchronize do
            next unless @fiber

            JobStop.set(error = error.exception, @fiber)
            Interruption.deliver(@scheduler, @fiber, error)
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
