/* wake.c - making a parked fiber ready, and a sleeping loop look. Uses ruby.h.
 *
 * Read after: wait.h. */
#include "base/clock.h"
#include "base/mailbox.h"
#include "loop/resume_chain.h"
#include "loop/profile.h"
#include "loop/wait.h"
#include <errno.h>
#include <unistd.h>

/* ---- the loop ------------------------------------------------------------------------------- */

void nb_loop_signal(void *argument)
{
    nb_loop_t *loop = argument;
    uint64_t one = 1;
    ssize_t written = write(loop->wake_fds[1], &one, sizeof(one));
    (void)written; /* full means already signalled */
}

void nb_loop_wakeup(nb_loop_t *loop)
{
    if (atomic_load_explicit(&loop->asleep, memory_order_relaxed) && !loop->signalled) {
        loop->signalled = true;
        int saved = errno; /* unblock is called where the caller still looks at errno */
        nb_loop_signal(loop);
        errno = saved;
    }
}

void nb_loop_on_wake_fd(nb_watch_t *watch, int mask)
{
    nb_loop_t *loop = nb_container_of(watch, nb_loop_t, wake_watch);
    uint64_t drained;
    while (read(loop->wake_fds[0], &drained, sizeof(drained)) > 0 &&
           loop->wake_fds[0] != loop->wake_fds[1])
        ;
    (void)mask;
    nb_mailbox_collect(loop->mail);
}

/* ---- a park ---------------------------------------------------------------------------------- */

static void make_ready(nb_park_t *park, nb_reason_t reason, bool first)
{
    nb_ready_t *ready = &park->loop->ready;
    if (park->state == NB_PARKED) {
        if (nb_ready_reserve(ready) < 0)
            rb_memerror();
        park->state = NB_READY;
        park->reason = reason;
        park->ready_place = first ? nb_ready_push_front(ready, park) : nb_ready_push(ready, park);
        if (park->seen)
            park->seen->ready_ns = nb_clock_now();
        nb_loop_wakeup(park->loop);
    } else if (park->state == NB_READY && reason > park->reason) {
        park->reason = reason;
    }
}

void nb_wake(nb_park_t *park, nb_reason_t reason)
{
    make_ready(park, reason, false);
}

void nb_wake_first(nb_park_t *park, nb_reason_t reason)
{
    make_ready(park, reason, true);
}

nb_park_t *nb_park_of(nb_loop_t *loop, VALUE fiber)
{
    nb_park_t *park = nb_ptrmap_get(&loop->parked, fiber);
    const void *end = park ? NULL : nb_resume_chain_end(fiber);
    for (size_t i = 0; !park && loop->parked.slots && i <= loop->parked.mask; i++) {
        nb_park_t *other = loop->parked.slots[i].value;
        if (other && (other->owner == fiber || nb_resume_chain_is(end, other->fiber)))
            park = other;
    }
    return park;
}
