/* gvl_share.c - lets other threads run while fibers are ready. Uses ruby.h. Read after:
 * gvl_share.h. */
#include "loop/gvl_share.h"
#include "base/clock.h"
#include <ruby/thread.h>
#include <sys/resource.h>

/* How often the thread has slept in the kernel: for events, or for the GVL after Ruby or a call
 * gave it to others. Every Ruby would have to be asked in its own way. */
static long sleeps_so_far(void)
{
#ifdef RUSAGE_THREAD
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0)
        return usage.ru_nvcsw;
#endif
    return 0;
}

static VALUE let_run(VALUE unused)
{
    rb_thread_schedule();
    return Qnil;
}

/* What comes meanwhile is the runner's only if this fiber waits: else it runs, and may be the one
 * whose timeout it is. */
static void let_others_run(nb_loop_t *loop)
{
    if (nb_ptrmap_get(&loop->parked, rb_fiber_current()))
        nb_loop_look(loop, let_run, Qnil);
    else
        rb_thread_schedule();
}

/* Those that wait for the GVL go first, each until it waits, or for Ruby's 100 ms if it computes.
 * The loop then keeps it twice as long as they computed, unless Ruby takes it: beside threads that
 * compute all the time it has as much as each of them. */
static void give_way(nb_loop_t *loop, uint64_t now_ns)
{
    uint64_t cpu_ns = nb_cpu_of_others();
    loop->gvl_since_ns = now_ns; /* in case it raises */
    let_others_run(loop);
    loop->gvl_since_ns = nb_clock_now();
    uint64_t since_ns = nb_cpu_of_others();
    loop->gvl_share_ns = since_ns > cpu_ns ? 2 * (since_ns - cpu_ns) : 0; /* of two clocks each */
    loop->gvl_sleeps = sleeps_so_far();
}

void nb_gvl_share_now(nb_loop_t *loop)
{
    if (loop->virtual_ns)
        return;
    uint64_t now_ns = nb_clock_now();
    if (rb_thread_alone() || rb_thread_interrupted(loop->thread)) {
        loop->gvl_since_ns = now_ns;
        return;
    }
    long sleeps = sleeps_so_far();
    if (sleeps == loop->gvl_sleeps) {
        give_way(loop, now_ns);
        return;
    }
    nb_gvl_share_anew(loop, now_ns);
    loop->gvl_sleeps = sleeps;
}
