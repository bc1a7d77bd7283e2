/* held_mutexes.h - the list of the mutexes that a thread has locked. Uses ruby.h. */
#ifndef NB_HELD_MUTEXES_H
#define NB_HELD_MUTEXES_H

#include <ruby.h>
#include <stdbool.h>

#ifdef __GLIBC__
#define NB_KNOWS_HELD_MUTEXES 1
#else
#define NB_KNOWS_HELD_MUTEXES 0
#endif

#if NB_KNOWS_HELD_MUTEXES
/* Ruby 3.1 unlocks a mutex, wakes the waiter through our hook `unblock`, and only then takes the
 * mutex off that list (later Rubies do it the other way round). After the hook it checks
 * interrupts. If these raise (a timeout, Thread#raise, a signal), the mutex stays on the list, and
 * a mutex that another thread locks meanwhile mixes two lists. At the end of the thread, or of the
 * process, Ruby follows the list: [BUG] invalid keeping_mutexes, or a segmentation fault if a mutex
 * was collected.
 *
 * Takes a mutex that the current thread has just unlocked off its list. blocker: the argument of
 * `unblock`. Does nothing for another object, for a locked mutex, or without the repair. */
void nb_held_mutexes_drop(VALUE blocker);

/* Whether the fiber with this struct has locked a mutex; false for another object, and without the
 * repair. */
bool nb_held_mutexes_by(const void *fiber, VALUE blocker);

/* Whether the current fiber has locked a mutex; false without the repair. */
bool nb_held_mutexes_some(void);
/* Unlocks those. In the form that rb_protect needs. */
VALUE nb_held_mutexes_unlock(VALUE unused);
#else
static inline void nb_held_mutexes_drop(VALUE blocker)
{
    (void)blocker;
}

static inline bool nb_held_mutexes_by(const void *fiber, VALUE blocker)
{
    (void)fiber, (void)blocker;
    return false;
}

static inline bool nb_held_mutexes_some(void)
{
    return false;
}

static inline VALUE nb_held_mutexes_unlock(VALUE unused)
{
    return unused;
}
#endif

#endif
