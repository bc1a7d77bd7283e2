/* early_unblock.h - an unblock that comes before its block. Uses ruby.h.
 *
 * Ruby links a fiber to a lock, queue or thread, calls the hook, and unlinks it. The caller of
 * unblock finds the fiber linked, perhaps before the hook has parked it: a Ruby method around the
 * hook, or a check for interrupts before it, may let another thread run. It calls only once, so the
 * loop has to remember: for this fiber and this blocker. A fiber that finds nothing after such a
 * wait waits again, so remembering for too long does no harm there; a plain sleep never looks at
 * it.
 *
 * ConditionVariable#wait waits in Mutex#sleep, whose hook kernel_sleep is told no blocker.
 * hooks/mutex.c records the mutex, from before it is unlocked until the hook that waits. IO#close
 * sleeps in the same way until the threads that use the IO have left it, and they unblock it in the
 * name of its thread.
 *
 * Read after: wait.h.
 */
#ifndef NB_EARLY_UNBLOCK_H
#define NB_EARLY_UNBLOCK_H

#include "loop/wait.h"

/* A lock internal to Ruby, such as that of `require`: it has no class, and Ruby code must not see
 * it. */
bool nb_is_hidden(VALUE blocker);

bool nb_is_mutex(VALUE blocker);

/* Mutex, Queue, SizedQueue: unblock always names them as block does. */
bool nb_is_lock_or_queue(VALUE blocker);

/* Remembers that fiber was unblocked while it did not wait for blocker. Any thread. */
void nb_early_unblock_note(nb_loop_t *loop, VALUE fiber, VALUE blocker);

/* Forgets that. */
void nb_early_unblock_forget(nb_loop_t *loop, VALUE fiber, VALUE blocker);

bool nb_early_unblock_take(nb_park_t *park);
void nb_early_unblock_mutex(nb_park_t *park);

/* Whether a park that is about to wait for park->blocker, or to sleep, need not. Gives a park
 * inside Mutex#sleep its mutex as the blocker. */
static inline bool nb_early_unblock_came(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    if (loop->mutex_sleeps.count)
        nb_early_unblock_mutex(park);
    return RHASH_SIZE(loop->early_unblocks) && nb_early_unblock_take(park);
}

#endif
