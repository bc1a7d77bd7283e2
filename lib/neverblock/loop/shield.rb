# frozen_string_literal: true

require_relative "scheduler"

module NB
  # {NB.shield}: a section during which nothing is raised in its fiber from outside.
  module Shield
    # Implements {NB.shield}.
    #
    # @api private
    def self.call(seconds, &)
      scheduler = Fiber.current_scheduler
      return scheduler.shield(seconds, &) if scheduler.is_a?(Scheduler)
      return Thread.handle_interrupt(UNINTERRUPTED, &) unless scheduler

      raise NoSchedulerError, "NB.shield: #{scheduler.class} runs this fiber, which raises in it " \
                              "past us; call it inside NB.run { }, or without a scheduler"
    end
  end
end
