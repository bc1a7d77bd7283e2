/* early.h - an unblock that comes before its block. Uses ruby.h.
 *
 * Ruby links a fiber to a lock, queue or thread, calls the hook, and unlinks it. Who calls unblock
 * finds it linked, which may be before the hook parks it: when a Ruby method around the hook, or a
 * check for interrupts before it, let another thread run. It is told once, so the loop has to
 * remember: for this fiber and this blocker. Whoever finds nothing after such a wait waits again,
 * so what is remembered too long can do no harm there; a plain sleep never looks at it.
 *
 * ConditionVariable#wait waits in Mutex#sleep, whose hook kernel_sleep is told no blocker: hooks/
 * mutex.c notes the mutex, from before it is unlocked until the hook that waits. IO#close sleeps so
 * too, until the threads that use the IO have left it: they unblock it in the name of its thread.
 *
 * Read after: wait.h. Used by: block.c, time.c, mutex.c.
 */
#ifndef NB_EARLY_H
#define NB_EARLY_H

#include "loop/wait.h"

/* A lock that Ruby keeps to itself, such as that of `require`: it has no class, and no Ruby code
 * may see it. */
bool nb_is_hidden(VALUE blocker);

bool nb_is_mutex(VALUE blocker);

/* Mutex, Queue, SizedQueue: unblock always names them as block does. */
bool nb_is_lock_or_queue(VALUE blocker);

/* Remembers that fiber was unblocked while it did not wait for blocker. Any thread. */
void nb_early_note(nb_loop_t *loop, VALUE fiber, VALUE blocker);

/* Forgets it. */
void nb_early_forget(nb_loop_t *loop, VALUE fiber, VALUE blocker);

bool nb_early_take(nb_park_t *park);
void nb_early_mutex(nb_park_t *park);

/* For a park about to wait for park->blocker, or sleep: whether it need not. Gives a park inside of
 * Mutex#sleep its mutex as the blocker. */
static inline bool nb_early_came(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    if (loop->mutex_sleeps.count)
        nb_early_mutex(park);
    return RHASH_SIZE(loop->early) && nb_early_take(park);
}

#endif
