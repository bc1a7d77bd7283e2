/* timeout.h - one call of timeout_after. Uses ruby.h. Read after: timers.h. */
#ifndef NB_HOOKS_TIMEOUT_H
#define NB_HOOKS_TIMEOUT_H

#include "loop/suspended_timer.h"
#include "loop/shield.h"

/* On the stack of the fiber that runs the block. */
typedef struct {
    nb_timer_t timer;
    nb_loop_t *loop;
    uint64_t deadline_ns;
    VALUE fiber, duration, klass, message, raised;
    nb_held_t held;                 /* while a shield holds it back */
    nb_suspended_timer_t suspended; /* when it is due while the fiber is suspended */
    unsigned depth;                 /* of the shields that it began in */
    VALUE translated;               /* what leaves the block in place of Expired; or 0 */
    bool lets_compute;              /* raises only where the block waits */
    bool interrupted;               /* by the thread that watches blocks that compute */
    bool traced; /* that thread cannot interrupt it: the fiber checks by itself */
} nb_timeout_t;

#endif
