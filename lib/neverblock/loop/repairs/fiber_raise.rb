# frozen_string_literal: true

# Fiber#raise and Fiber#kill on a fiber that waits in a loop. It was entered by transfer, so Ruby
# never comes back to the caller, who is lost forever (all versions). Here the caller queues first.
# One that has left by Fiber#transfer is entered by transfer too: fiber_transfer.rb.
module NB
  module Repairs
    %i[raise kill].each do |name|
      next unless Fiber.method_defined?(name)

      repair(Fiber, name) do |original|
        proc do |*arguments, **options|
          call = -> { __send__(original, *arguments, **options) }
          scheduler = Fiber.scheduler
          next call.call unless scheduler.is_a?(Scheduler)
          next scheduler.hand_over(&call) if scheduler.__send__(:waiting_within?, self)

          scheduler.away?(self) ? scheduler.leave(&call) : call.call
        end
      end
    end
  end
end
