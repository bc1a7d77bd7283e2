/* away.h - who has left by Fiber#transfer, and goes on when a fiber ends. Uses ruby.h.
 *
 * When a fiber ends that was entered by transfer, Ruby goes on in the thread's first fiber, or in
 * the last of those that are inside each other's resume, from there on. In a loop that is the first
 * fiber of all, whoever called transfer. To the code in a fiber of the loop, that fiber takes the
 * place of the thread's first one: the end comes back to it, with the value or the exception.
 *
 * Read after: wait.h. Used by: wait.c, hooks/transfer.c.
 */
#ifndef NB_AWAY_H
#define NB_AWAY_H

#include "loop/wait.h"

/* Calls body, which transfers from the current fiber to another, and comes back when one transfers
 * to this, or when it is the turn of this one because another has ended. */
VALUE nb_away_during(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument);

/* Whether the fiber has left so, and has not come back. */
bool nb_is_away(const nb_loop_t *loop, VALUE fiber);

/* Enters fiber from self's, which is blocking: the thread's first one comes back without having
 * been woken when a fiber has ended. Then the one goes on to which that matters, if there is one.
 */
void nb_away_enter(nb_loop_t *loop, const nb_park_t *self, VALUE fiber);

/* So that no entry outlives the stack that it lies on. */
void nb_away_mark(const nb_loop_t *loop);

/* Also in a forked child, which has none of them. */
void nb_away_free(nb_loop_t *loop);

#endif
