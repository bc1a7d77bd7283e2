# frozen_string_literal: true

# Ruby 3.1 unlocks a mutex, calls the scheduler's hook `unblock` for the waiter, checks for
# interrupts, and only then takes the mutex off its thread's list. If a timeout, a Thread#raise or a
# signal strikes at that moment, an unlocked mutex stays on the list, and the process crashes when
# the thread or the process ends. Fixed in 3.2. In C (ext/neverblock/hooks/held_mutexes.c): the
# hook takes the mutex off the list.
NB::Native.repair_mutex_unlock
