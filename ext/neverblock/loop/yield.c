/* yield.c - a fiber that could continue lets the others have their turn. Uses ruby.h.
 *
 * Read after: wait.h. */
#include "loop/guest.h"
#include "loop/gvl_share.h"
#include "loop/wait.h"

static void park_ready(nb_loop_t *loop, nb_park_kind_t kind)
{
    nb_park_t park;
    nb_park_init(loop, &park, kind);
    nb_wake(&park, NB_WOKEN);
    nb_park(&park);
}

void nb_yield(nb_loop_t *loop)
{
    loop->eager = 0;
    if (!loop->ready.count || loop->since_poll >= NB_POLL_EVERY) {
        nb_gvl_share(loop);
        nb_loop_turn(loop, false);
    }
    if (loop->ready.count || RHASH_SIZE(loop->deferred))
        park_ready(loop, NB_PARK_YIELD);
}

bool nb_may_yield(nb_loop_t *loop)
{
    VALUE fiber = rb_fiber_current();
    return !nb_ptrmap_get(&loop->parked, fiber) && !nb_guest_is_host(loop, fiber);
}

/* Whether a park of the current fiber would raise at once. */
static bool is_awaited(nb_loop_t *loop)
{
    return (loop->overdue && loop->overdue == loop->current) ||
           (RHASH_SIZE(loop->deferred) &&
            (RTEST(rb_hash_aref(loop->deferred, rb_fiber_current())) ||
             RTEST(rb_hash_aref(loop->deferred, loop->current))));
}

void nb_before_start(nb_loop_t *loop)
{
    nb_chaos_pause(loop);
    if (++loop->starts < NB_MANY_STARTS)
        return;
    bool long_turn = nb_loop_clock(loop) - loop->turn_ns >= NB_SLICE_NS;
    if (!(long_turn || nb_chaos(NB_CHAOS_YIELD)) || !nb_may_yield(loop))
        return;
    nb_loop_turn(loop, false);
    loop->turn_ns = loop->now_ns; /* a fiber that starts more checks again after a slice */
    if (loop->ready.count && !is_awaited(loop))
        park_ready(loop, NB_PARK_SPAWN);
}

#ifdef NB_CHAOS
void nb_chaos_step(nb_loop_t *loop)
{
    nb_chaos_pause(loop);
    if (nb_chaos(NB_CHAOS_POLL))
        nb_loop_turn(loop, false);
    if (nb_chaos(NB_CHAOS_YIELD))
        nb_yield(loop);
}
#endif
