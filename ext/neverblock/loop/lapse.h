/* lapse.h - deadlines that pass while their fiber is suspended. Uses ruby.h. Read after: loop.h.
 *
 * A fiber is suspended by Fiber.yield, or in an Enumerator that is read by `next`. Nobody can raise
 * in such a fiber, and nobody may ever resume it. So from then on the loop has no pointer to its
 * stack, and the collector may free both. What is due is attached to the fiber itself, which looks
 * at its next wait.
 */
#ifndef NB_LAPSE_H
#define NB_LAPSE_H

#include "loop/loop.h"

typedef struct nb_lapse {
    nb_loop_t *loop;
    nb_timer_t *timer;
    struct nb_lapse *next; /* of the same fiber */
    bool linked;
} nb_lapse_t;

/* From now on the fiber itself checks the timer, which is not in the heap. Returns whether it
 * can. */
bool nb_lapse_begin(nb_lapse_t *lapse, VALUE fiber);

/* The fiber leaves the section that the timer was for. */
void nb_lapse_end(nb_lapse_t *lapse, VALUE fiber);

/* Makes what has lapsed due now, for a fiber that is about to wait. Returns 0 or -ENOMEM. */
int nb_lapses_take(nb_loop_t *loop, VALUE fiber);

#endif
