# frozen_string_literal: true

# Fiber#raise and Fiber#kill on a fiber that waits in a loop. The loop entered that fiber by
# transfer, so Ruby never returns to the caller, which is lost forever (all versions). Here the
# caller queues itself first. For a fiber that left by Fiber#transfer see fiber_transfer.rb. A fiber
# that has resumed another passes on what is raised in it (3.3 and later), and only Ruby knows to
# whom: there both are done.
#
# A kill is noted on the fiber, for {Interruption.struck_block?}: an `ensure` finds no trace of it.
module NB
  module Repairs
    %i[raise kill].each do |name|
      next unless Fiber.method_defined?(name)

      repair(Fiber, name) do |original|
        proc do |*arguments, **options|
          call = -> { __send__(original, *arguments, **options) }
          scheduler = Fiber.scheduler
          next call.call unless scheduler.is_a?(Scheduler)

          @neverblock_killed = true if name == :kill
          next scheduler.hand_over(&call) if scheduler.__send__(:waiting_within?, self)

          next scheduler.leave(&call) if scheduler.transferred?(self)

          resumes = to_s.end_with?(" by resuming)>") # nothing else in Ruby tells
          resumes ? scheduler.hand_over { scheduler.leave(&call) } : call.call
        end
      end
    end
  end
end
