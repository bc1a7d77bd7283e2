# frozen_string_literal: true

# Thread::Mutex#sleep, and so ConditionVariable#wait: whatever ends it, the mutex is locked again.
# Ruby 3.1 does not lock it if an exception ends the wait (fixed in 3.2). All versions lose the lock
# if an exception strikes while it is taken again: that step is meant to be uninterruptible, but a
# scheduler's block hook can raise. The caller's unlock then hides the exception behind a
# ThreadError. Under a scheduler, no version tells a timeout (nil) from a wake-up (seconds). And the
# hook is not told for which mutex it waits, so it could not recognize a wake-up that comes before
# the wait.
#
# In C (ext/neverblock/hooks/mutex.c), so nothing can come between the unlock and the wait. From
# Ruby 4.0 on Ruby's own is a method in Ruby, whose parameters programs can ask for.
Thread::Mutex.alias_method(:sleep, :sleep) # keeps Ruby from warning about the redefinition
NB::Native.repair_mutex_sleep
if RUBY_VERSION >= "4"
  NB::Repairs.keep(Thread::Mutex, :sleep_in_neverblock, :sleep)
  Thread::Mutex.class_eval { def sleep(timeout = nil) = sleep_in_neverblock(timeout) }
end
