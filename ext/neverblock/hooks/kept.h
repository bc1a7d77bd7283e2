/* kept.h - the list of the mutexes that a thread has locked. Uses ruby.h. Used by: block.c. */
#ifndef NB_KEPT_H
#define NB_KEPT_H

#include <ruby.h>
#include <ruby/version.h>

/* Ruby 3.1 unlocks a mutex, wakes who waits for it by our hook `unblock`, and only then takes it
 * out of that list (later Rubies: the other way round). After the hook it looks at interrupts: what
 * they raise (a timeout, Thread#raise, a signal) leaves the mutex in the list, and what another
 * thread locks meanwhile mixes two lists. At the end of the thread, or of the process, Ruby follows
 * the list: [BUG] invalid keeping_mutexes, or a segmentation fault where a mutex was collected. */
#if RUBY_API_VERSION_CODE < 30200 && defined(__GLIBC__)
#define NB_KEEPS_UNLOCKED 1
#else
#define NB_KEEPS_UNLOCKED 0
#endif

#if NB_KEEPS_UNLOCKED
/* Takes a mutex that the current thread has just unlocked out of its list. blocker: of `unblock`;
 * nothing happens for another object, for a locked mutex, or without the repair. */
void nb_kept_drop(VALUE blocker);
#else
static inline void nb_kept_drop(VALUE blocker)
{
    (void)blocker;
}
#endif

#endif
