/* fork_mutexes.h - mutexes that the parent's fibers want or hold, in a forked child. Uses ruby.h.
 *
 * In a child, Ruby releases what other threads hold, and empties the waiting lists of queues,
 * conditions, and mutexes that other threads wait for. It does not do so for fibers:
 *
 * - Only the fiber that holds a mutex may unlock it. So that fiber is entered once more, on its own
 *   stack, unlocks the mutex, and is left for good; none of its code runs.
 * - A fiber that has resumed another one, such as an Enumerator's, cannot be entered. What it holds
 *   is made the heir's, who unlocks it.
 * - A mutex's waiting list lies on the stacks of the waiters, so they are taken off it.
 *
 * Read after: loop.h.
 */
#ifndef NB_FORK_MUTEXES_H
#define NB_FORK_MUTEXES_H

#include "loop/loop.h"

typedef struct nb_fork_mutexes {
    VALUE heir;            /* the fiber that forked, and goes on */
    VALUE fibers;          /* Array of those that can be entered */
    VALUE resuming;        /* Array of those that have resumed one of these */
    VALUE waiting, wanted; /* Arrays: who waits for which mutex; as often as they wait */
    VALUE held;            /* Array of mutexes that are not the heir's */
    VALUE raised;          /* while one was entered, such as a signal; or nil */
} nb_fork_mutexes_t;

/* Records the parked fibers, all except heir. */
void nb_fork_mutexes_note(const nb_loop_t *loop, VALUE heir, nb_fork_mutexes_t *mutexes);

/* Makes them unlock what they hold, and takes them off the waiting lists. The loop is the child's
 * already. Raises what came meanwhile. */
void nb_fork_mutexes_release(nb_loop_t *loop, nb_fork_mutexes_t *mutexes);

#endif
