/* orphan.h - in a forked child: fibers of the parent that wait for a mutex. Uses ruby.h.
 *
 * Ruby empties the waiting lists of queues, conditions and of mutexes that other threads wait for
 * in a child. A mutex that fibers wait for keeps them, and its list lies on their stacks: they must
 * not be collected, and a wake-up that one of them gets is meant for the next.
 *
 * Read after: loop.h. Used by: fork.c, hooks/block.c.
 */
#ifndef NB_ORPHAN_H
#define NB_ORPHAN_H

#include "loop/loop.h"

/* Notes those that are parked for a mutex, all but fiber, which goes on. */
void nb_orphans_note(nb_loop_t *loop, VALUE fiber);

/* Whether unblock(blocker) is for one of them: then the next who waits for it is woken soon. */
bool nb_orphan_unblocked(nb_loop_t *loop, VALUE fiber, VALUE blocker);

#endif
