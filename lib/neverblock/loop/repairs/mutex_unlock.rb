# frozen_string_literal: true

# Ruby 3.1 unlocks a mutex, calls the scheduler's hook `unblock` for who waits for it, looks at
# interrupts, and only then takes the mutex out of its thread's list. So a timeout, a Thread#raise
# or a signal of that moment leaves an unlocked mutex in the list, and the process crashes when the
# thread or the process ends. Fixed in 3.2. In C (ext/neverblock/hooks/kept.c): the hook takes the
# mutex out.
NB::Native.repair_mutex_unlock
