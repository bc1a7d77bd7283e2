# frozen_string_literal: true

require_relative "../loop/scheduler"

module NB
  module Drivers
    # The fiber of the loop in which the caller runs. That is not the current fiber inside an
    # Enumerator, or in another fiber made and resumed there: libraries that keep their state by
    # `Fiber.current` lose it in such a fiber.
    module LoopFiber
      class << self
        # @return [Fiber, nil] nil: outside a loop, and in the block of {NB.run} itself, which is
        #   the thread's own code
        # @scheduling never waits
        # @thread any
        def current = fiber(&:thread_fiber)

        # @return [Fiber, nil] the fiber of the loop, if the caller runs in a fiber inside it
        # @scheduling never waits
        # @thread any
        def around = fiber { Fiber.current }

        private

        # Not the fiber that the block runs in.
        def fiber
          scheduler = Fiber.scheduler
          return unless scheduler.is_a?(Scheduler)

          fiber = scheduler.current
          fiber unless fiber.equal?(yield(scheduler))
        end
      end
    end
  end
end
