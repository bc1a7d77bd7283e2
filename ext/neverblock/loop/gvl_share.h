/* gvl_share.h - lets other threads run while fibers are ready. Uses ruby.h. Read after: loop.h.
 *
 * A loop asleep keeps nobody from running. One whose fibers always have something to do would keep
 * the GVL until Ruby takes it away, after 100 ms; threads that write what the fibers read would
 * stand still meanwhile. So between two fibers, those that wait for the GVL get it after a
 * millisecond.
 */
#ifndef NB_GVL_SHARE_H
#define NB_GVL_SHARE_H

#include "loop/loop.h"

#define NB_GVL_SHARE_NS 1000000

/* For nb_gvl_share. */
void nb_gvl_share_now(nb_loop_t *loop);

/* Called beside a turn of the loop, where any fiber may run next. May raise what another thread or
 * a signal raises. */
static inline void nb_gvl_share(nb_loop_t *loop)
{
    uint64_t share_ns = loop->gvl_share_ns > NB_GVL_SHARE_NS ? loop->gvl_share_ns : NB_GVL_SHARE_NS;
    if (loop->now_ns >= loop->gvl_since_ns + share_ns) /* others may have had it since that turn */
        nb_gvl_share_now(loop);
}

/* Others have had it without being let. What is known of how long they take is older now. */
static inline void nb_gvl_share_anew(nb_loop_t *loop, uint64_t now_ns)
{
    loop->gvl_since_ns = now_ns;
    loop->gvl_share_ns -= loop->gvl_share_ns / 4;
}

#endif
