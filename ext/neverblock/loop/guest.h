/* guest.h - the loop as a guest of another event loop on its thread. Uses ruby.h.
 *
 * Read after: loop.h.
 *
 * The host (such as EventMachine's reactor) sleeps in the kernel and watches one fd, our backend's;
 * when it is readable, the host gives our fibers a turn. Between turns the loop counts as asleep:
 * its next timer is the backend's alarm, and whatever makes a fiber ready writes the wake fd. So
 * whatever the host's callbacks do, that one fd becomes readable.
 */
#ifndef NB_GUEST_H
#define NB_GUEST_H

#include "loop/loop.h"

/* Whether fiber is the host's, which must not wait for the loop, because the loop would wait for
 * it. */
static inline bool nb_guest_is_host(nb_loop_t *loop, VALUE fiber)
{
    return loop->guest.host == fiber;
}

void Init_nb_guest(VALUE cScheduler);

#endif
