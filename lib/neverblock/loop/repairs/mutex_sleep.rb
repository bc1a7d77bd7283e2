# frozen_string_literal: true

# Thread::Mutex#sleep, and so ConditionVariable#wait: whatever ends it, the mutex is locked again.
# Ruby 3.1 does not lock it when an exception ends the wait (fixed in 3.2). All versions lose it
# when an exception comes while the lock is taken again: that is meant to be uninterruptible, but a
# scheduler's block hook can raise. The caller's unlock then hides it behind a ThreadError. And no
# version tells a timeout (nil) from a wake-up (seconds) under a scheduler.
module NB
  module Repairs
    # Exceptions that come meanwhile wait until the lock is ours.
    #
    # @api private
    def self.lock_again(mutex)
      late = nil
      until mutex.owned?
        begin
          mutex.lock
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised below
          late ||= error
        end
      end
      raise late if late
    end

    replace(Thread::Mutex, :sleep) do |original|
      proc do |*timeout|
        scheduler = Repairs.loop_here
        next original.bind_call(self, *timeout) unless scheduler && owned? && timeout.size <= 1

        start = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
        begin
          unlock
          woken = scheduler.kernel_sleep(timeout.first)
        ensure
          Repairs.lock_again(self)
        end
        Process.clock_gettime(Process::CLOCK_REALTIME, :second) - start if woken
      end
    end
  end
end
