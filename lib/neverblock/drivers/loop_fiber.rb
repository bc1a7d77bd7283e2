# frozen_string_literal: true

require_relative "../loop/scheduler"

module NB
  module Drivers
    # In which fiber of the loop the caller runs: not in that of an Enumerator, or of another fiber
    # that was made and resumed there. Libraries that keep their state by `Fiber.current` lose it in
    # such a one.
    module LoopFiber
      class << self
        # @return [Fiber, nil] nil: outside of a loop, and in the block of {NB.run} itself, which is
        #   the thread's own code
        # @scheduling never waits
        # @thread any
        def current = fiber(&:thread_fiber)

        # @return [Fiber, nil] the fiber of the loop, if the caller runs in a fiber within it
        # @scheduling never waits
        # @thread any
        def around = fiber { Fiber.current }

        private

        # Not the one that the block names.
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
