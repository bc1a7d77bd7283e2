# frozen_string_literal: true

# Thread.stop. No Ruby (3.1 to 3.4) asks the scheduler: the thread stops with all its fibers, and
# forever if one of these was to wake it. Here only the calling fiber sleeps; Thread#wakeup and
# Thread#run end the sleep of the block of NB.run (thread_wakeup.rb). Where nobody is left who could
# go on, Ruby raises ThreadError, as without a loop.
module NB
  module Repairs
    # @return [Boolean] whether other fibers or threads could go on
    # @api private
    def self.others?(scheduler)
      Thread.list.size > 1 || scheduler.stats.values_at(:fibers, :idle_fibers).sum > 1
    end

    repair(Thread.singleton_class, :stop) do |original|
      proc do
        scheduler = Repairs.loop_here
        next __send__(original) unless scheduler && Repairs.others?(scheduler)

        scheduler.kernel_sleep(nil)
        nil
      end
    end
  end
end
