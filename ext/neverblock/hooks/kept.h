/* kept.h - the list of the mutexes that a thread has locked. Uses ruby.h. Used by: block.c. */
#ifndef NB_KEPT_H
#define NB_KEPT_H

#include <ruby.h>
#include <ruby/version.h>

/* Ruby 3.1 unlocks a mutex, wakes the waiter through our hook `unblock`, and only then takes the
 * mutex off that list (later Rubies do it the other way round). After the hook it checks
 * interrupts. If these raise (a timeout, Thread#raise, a signal), the mutex stays on the list, and
 * a mutex that another thread locks meanwhile mixes two lists. At the end of the thread, or of the
 * process, Ruby follows the list: [BUG] invalid keeping_mutexes, or a segmentation fault if a mutex
 * was collected. */
#if RUBY_API_VERSION_CODE < 30200 && defined(__GLIBC__)
#define NB_KEEPS_UNLOCKED 1
#else
#define NB_KEEPS_UNLOCKED 0
#endif

#if NB_KEEPS_UNLOCKED
/* Takes a mutex that the current thread has just unlocked off its list. blocker: the argument of
 * `unblock`. Does nothing for another object, for a locked mutex, or without the repair. */
void nb_kept_drop(VALUE blocker);
#else
static inline void nb_kept_drop(VALUE blocker)
{
    (void)blocker;
}
#endif

#endif
