/* orphan.h - in a forked child: fibers of the parent that want or hold a mutex. Uses ruby.h.
 *
 * Ruby empties the waiting lists of queues, conditions and of mutexes that other threads wait for
 * in a child. A mutex that fibers wait for keeps them, and its list lies on their stacks: they must
 * not be collected, and a wake-up that one of them gets is meant for the next.
 *
 * Ruby releases there what other threads hold. What a fiber holds only that fiber may unlock: it is
 * entered once more, on its own stack, unlocks, and is left for good; none of its code runs.
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

/* The fibers that stand in a park, all but heir, which goes on: an Array for nb_orphans_release. */
VALUE nb_orphans_of(const nb_loop_t *loop, VALUE heir);

/* Has each of the fibers unlock what it holds. The loop is the child's already. Raises what came
 * meanwhile, such as a signal. */
void nb_orphans_release(nb_loop_t *loop, VALUE heir, VALUE fibers);

#endif
