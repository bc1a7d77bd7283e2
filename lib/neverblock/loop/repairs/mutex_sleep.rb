# frozen_string_literal: true

# Thread::Mutex#sleep, and so ConditionVariable#wait: whatever ends it, the mutex is locked again.
# Ruby 3.1 does not lock it when an exception ends the wait (fixed in 3.2). All versions lose it
# when an exception comes while the lock is taken again: that is meant to be uninterruptible, but a
# scheduler's block hook can raise. The caller's unlock then hides it behind a ThreadError. No
# version tells a timeout (nil) from a wake-up (seconds) under a scheduler. And the hook is not told
# for which mutex it waits, so a wake-up that comes before the wait could not be told from others.
#
# In C (ext/neverblock/hooks/mutex.c), so that nothing can come between the unlock and the wait.
Thread::Mutex.alias_method(:sleep, :sleep) # keeps Ruby from warning about the redefinition
NB::Native.repair_mutex_sleep
