# frozen_string_literal: true

require_relative "../../sync/interruption"

module NB
  module Drivers
    module Async
      # The timers of an Async::Timeout, which a block may move or cancel. A fiber sleeps for each.
      class Timers
        # One of these timers.
        Handle = Struct.new(:time, :block, :task) do
          # @return [void]
          def cancel!
            self.block = nil
            task&.cancel unless task&.current?
          end

          # @return [Boolean]
          def cancelled? = block.nil?
        end

        # About 30 years: no clock can sleep longer.
        LONGEST = 1e9
        private_constant :LONGEST

        # The time left may be negative: then async ends the block at its first wait.
        #
        # @return [Float]
        def self.seconds(duration) = duration.to_f.clamp(0.0, LONGEST)

        # Runs the block with a timeout that it can move.
        #
        # @yieldparam timeout [Async::Timeout]
        # @param error [Exception] ends the block
        # @return the block's value
        # @scheduling may wait
        def self.limit(duration, error)
          scheduler = ::Fiber.scheduler
          fiber = ::Fiber.current
          struck = false
          timers = new
          strike = -> { (struck = true) && scheduler.fiber_interrupt(fiber, error) }
          timeout = ::Async::Timeout.new(timers, timers.schedule(timers.now + duration, strike))
          yield timeout
        ensure
          timeout&.cancel!
          Timers.take(error) if struck
        end

        # Waits until an exception that was sent here has arrived; otherwise it would meet later
        # code.
        #
        # @return [void]
        # @scheduling may wait
        def self.take(error)
          sleep(0) until error.backtrace
        rescue error.class => raised
          raise unless raised.equal?(error)
        end

        # @return [Float] seconds
        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

        # @return [Handle]
        def schedule(time, block)
          handle = Handle.new(time, block)
          handle.task = NB.async(background: true) do
            sleep(Timers.seconds(time - now))
            handle.block&.call
          end
          handle
        end
      end
    end
  end
end
