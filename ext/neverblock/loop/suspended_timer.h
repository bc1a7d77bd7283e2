/* suspended_timer.h - deadlines that pass while their fiber is suspended. Uses ruby.h. Read after:
 * loop.h.
 *
 * A fiber is suspended by Fiber.yield, or in an Enumerator that is read by `next`. Nobody can raise
 * in such a fiber, and nobody may ever resume it. So from then on the loop has no pointer to its
 * stack, and the collector may free both. What is due is attached to the fiber itself, which looks
 * at its next wait.
 */
#ifndef NB_SUSPENDED_TIMER_H
#define NB_SUSPENDED_TIMER_H

#include "loop/loop.h"

typedef struct nb_suspended_timer {
    nb_loop_t *loop;
    nb_timer_t *timer;
    struct nb_suspended_timer *next; /* of the same fiber */
    bool linked;
} nb_suspended_timer_t;

/* From now on the fiber itself checks the timer, which is not in the heap. Returns whether it
 * can. */
bool nb_suspended_timer_begin(nb_suspended_timer_t *suspended, VALUE fiber);

/* The fiber leaves the section that the timer was for. */
void nb_suspended_timer_end(nb_suspended_timer_t *suspended, VALUE fiber);

/* Makes the passed deadlines due now, for a fiber that is about to wait. Returns 0 or -ENOMEM. */
int nb_suspended_timers_take(nb_loop_t *loop, VALUE fiber);

#endif
