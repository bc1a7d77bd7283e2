# frozen_string_literal: true

# Thread::Mutex#sleep, and so ConditionVariable#wait. Ruby 3.1 does not lock the mutex again when an
# exception ends the wait; the caller's unlock then hides it behind a ThreadError (fixed in 3.2).
module NB
  module Repairs
    replace(Thread::Mutex, :sleep) do |original|
      proc do |*timeout|
        next original.bind_call(self, *timeout) unless Repairs.loop_here && owned?

        begin
          original.bind_call(self, *timeout)
        ensure
          lock unless owned?
        end
      end
    end
  end
end
