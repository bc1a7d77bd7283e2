# frozen_string_literal: true

# Thread#wakeup and Thread#run. They end a thread's Kernel#sleep, but no scheduler is told, so its
# fibers sleep on (all versions). Here they end a sleep of the block of NB.run, which is the
# thread's own code.
module NB
  module Repairs
    %i[wakeup run].each do |name|
      repair(Thread, name) do |original|
        proc do
          Native.end_sleep(self) if Repairs.main?
          __send__(original)
        end
      end
    end
  end
end
