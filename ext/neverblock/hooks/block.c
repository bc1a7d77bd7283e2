/* block.c - block and unblock: Mutex, Queue, Thread#join and everything built on them. Ruby.
 * Read after: wait.h. */
#include "hooks/hooks.h"

/* @overload block(blocker, timeout = nil)
 *   Stops the fiber until {#unblock}.
 *   @param blocker [Object] what it waits for, for {NB.dump}
 *   @param timeout [Numeric, nil] seconds
 *   @return [Boolean] true when unblocked, false after the timeout
 *   @scheduling always waits */
static VALUE rb_nb_scheduler_block(int argc, VALUE *argv, VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    nb_park_t park;
    rb_check_arity(argc, 1, 2);
    loop->counters.block_waits++;
    nb_park_init(loop, &park, NB_PARK_BLOCK);
    park.blocker = argv[0];
    if (argc > 1)
        nb_park_deadline(&park, nb_deadline(argv[1]));
    return nb_park(&park) == NB_WOKEN ? Qtrue : Qfalse;
}

/* @overload unblock(blocker, fiber)
 *   Makes a fiber in {#block} or {#kernel_sleep} go on; does nothing to one that waits otherwise.
 *   @param blocker [Object] as given to {#block}
 *   @param fiber [Fiber]
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_unblock(VALUE self, VALUE blocker, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (!RTEST(rb_obj_is_fiber(fiber)))
        rb_raise(rb_eTypeError, "unblock: expected a Fiber, got: %" PRIsVALUE, rb_inspect(fiber));
    nb_park_t *park = loop->closed ? NULL : nb_ptrmap_get(&loop->parked, fiber);
    if (park && (park->kind == NB_PARK_BLOCK || park->kind == NB_PARK_SLEEP))
        nb_unblock(park);
    return Qtrue;
}

void Init_nb_hooks_block(VALUE cScheduler)
{
    rb_define_method(cScheduler, "block", rb_nb_scheduler_block, -1);
    rb_define_method(cScheduler, "unblock", rb_nb_scheduler_unblock, 2);
}
