# frozen_string_literal: true

# Thread::ConditionVariable#wait. From Ruby 4.0 on it calls Thread::Mutex#sleep in C, which bypasses
# the repair in mutex_sleep.rb, unless the mutex has a singleton class.
module NB
  module Repairs
    repair(Thread::ConditionVariable, :wait) do |original|
      proc do |mutex, timeout = nil|
        mutex.singleton_class if Repairs.loop_here && mutex.instance_of?(Thread::Mutex)
        __send__(original, mutex, timeout)
      end
    end
  end
end
