/* block.c - block and unblock: Mutex, Queue, Thread#join and everything built on them. Uses ruby.h.
 * Read after: wait.h, early_unblock.h. */
#include "hooks/early_unblock.h"
#include "hooks/hooks.h"
#include "hooks/held_mutexes.h"
#include "loop/resume_chain.h"
#include <math.h>
#include <ruby/version.h>

/* Thread#join(Float::NAN) waits until the thread has ended (Ruby 3.3 and later). */
static bool is_endless(VALUE timeout)
{
    return RB_FLOAT_TYPE_P(timeout) && isnan(RFLOAT_VALUE(timeout));
}

/* A fiber that has resumed this one cannot unlock before this one has ended. Blocking Ruby raises
 * that from 3.2 on. */
static void check_own_lock(const nb_park_t *park)
{
#if RUBY_API_VERSION_CODE >= 30200
    if (park->owner == park->fiber)
        return;
    nb_resume_chain_between_t holder = {nb_held_mutexes_by, park->blocker};
    if (nb_resume_chain_leads(park->owner, holder, park->fiber))
        rb_raise(rb_eThreadError,
                 "deadlock; lock already owned by another fiber belonging to the same thread");
#else
    (void)park;
#endif
}

/* @overload block(blocker, timeout = nil)
 *   Stops the fiber until {#unblock}. One that came earlier, for the same blocker, counts.
 *   @param blocker [Object] what it waits for, for {NB.dump}
 *   @param timeout [Numeric, nil] seconds
 *   @return [Boolean] true when unblocked, false after the timeout
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_block(int argc, VALUE *argv, VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    nb_park_t park;
    rb_check_arity(argc, 1, 2);
    loop->counters.block_waits++;
    nb_park_init(loop, &park, NB_PARK_BLOCK);
    park.blocker = argv[0];
    check_own_lock(&park);
    if (argc > 1 && !is_endless(argv[1]))
        nb_park_deadline(&park, nb_deadline(loop, argv[1]));
    nb_chaos_pause(loop);
    if (nb_chaos(NB_CHAOS_SPURIOUS) && nb_is_lock_or_queue(park.blocker))
        return Qtrue;
    if (nb_early_unblock_came(&park))
        return Qtrue;
    return nb_park(&park) == NB_WOKEN ? Qtrue : Qfalse;
}

/* Whether unblock(blocker) is meant for the park: 2 certainly, 1 presumably (Thread#join is
 * unblocked under another name than it blocks by, and a sleep has none), 0 no. */
static int meant_for(const nb_park_t *park, VALUE blocker)
{
    if (park->kind != NB_PARK_BLOCK && park->kind != NB_PARK_SLEEP)
        return 0;
    if (park->blocker == blocker)
        return 2;
    return park->blocker && nb_is_lock_or_queue(park->blocker) && nb_is_lock_or_queue(blocker) ? 0
                                                                                               : 1;
}

/* The park that unblock(blocker) is meant for, the innermost of several; or NULL. */
static nb_park_t *unblocked_park(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    nb_park_t *found = NULL;
    int best = 0;
    for (nb_park_t *park = nb_ptrmap_get(&loop->parked, fiber); park; park = park->outer) {
        int meant = meant_for(park, blocker);
        if (meant == 2)
            return park;
        if (meant > best) {
            best = meant;
            found = park;
        }
    }
    return found;
}

/* A blocking fiber sleeps with its thread. From Ruby 4.0 on its IO#close is woken as any other
 * fiber's: by this hook. */
static bool is_blocking(VALUE fiber)
{
#if RUBY_API_VERSION_CODE >= 40000
    return RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0));
#else
    (void)fiber;
    return false;
#endif
}

/* @overload unblock(blocker, fiber)
 *   Lets a fiber in {#block} or {#kernel_sleep} continue. If it does not wait for the blocker yet,
 *   its next {#block} for it returns at once.
 *   @param blocker [Object] as given to {#block}
 *   @param fiber [Fiber]
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_unblock(VALUE self, VALUE blocker, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (!RTEST(rb_obj_is_fiber(fiber)))
        rb_raise(rb_eTypeError, "unblock: expected a Fiber, got: %" PRIsVALUE, rb_inspect(fiber));
    nb_held_mutexes_drop(blocker);
    if (RB_TYPE_P(blocker, T_FILE) && loop->thread) /* an IO#close, from Ruby 4.0 on */
        blocker = loop->thread;
    nb_park_t *park = loop->closed ? NULL : unblocked_park(loop, fiber, blocker);
    if (park)
        nb_unblock(park);
    else if (loop->thread && is_blocking(fiber))
        rb_thread_wakeup_alive(loop->thread);
    else if (!loop->closed && !loop->fork_mutexes)
        nb_early_unblock_note(loop, fiber, blocker);
    return Qtrue;
}

void Init_nb_hooks_block(VALUE cScheduler)
{
    rb_define_method(cScheduler, "block", rb_nb_scheduler_block, -1);
    rb_define_method(cScheduler, "unblock", rb_nb_scheduler_unblock, 2);
}
