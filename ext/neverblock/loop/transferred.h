/* transferred.h - fibers that left by Fiber#transfer, and who continues after them. Uses ruby.h.
 *
 * When a fiber ends that was entered by transfer, Ruby continues in the thread's first fiber, or
 * from there on in the innermost of those that have resumed each other. In a loop that is the first
 * fiber of all, whoever called transfer. For code in a fiber of the loop, that fiber takes the
 * place of the thread's first one: the end returns to it, with the value or the exception.
 *
 * Read after: wait.h.
 */
#ifndef NB_TRANSFERRED_H
#define NB_TRANSFERRED_H

#include "loop/wait.h"

/* Calls body, which transfers from the current fiber to another. Returns when a fiber transfers to
 * this one, or when this one continues because another has ended. */
VALUE nb_transferred_during(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument);

/* Whether the fiber has left in this way and has not come back. */
bool nb_is_transferred(const nb_loop_t *loop, VALUE fiber);

/* Enters fiber from self's, which is blocking: when a fiber has ended, the thread's first one comes
 * back without having been woken. Then the fiber that this concerns continues, if there is one.
 */
void nb_transferred_enter(nb_loop_t *loop, const nb_park_t *self, VALUE fiber);

/* Removes the entry before the stack that it lies on ends. */
void nb_transferred_mark(const nb_loop_t *loop);

/* Also called in a forked child, which has none of them. */
void nb_transferred_free(nb_loop_t *loop);

#endif
