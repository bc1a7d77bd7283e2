/* transfer.c - Fiber#transfer that tells the loop when a fiber leaves. Uses ruby.h.
 * Read after: transferred.h. */
#include "hooks/hooks.h"
#include "loop/transferred.h"
#include <ruby/fiber/scheduler.h>
#include <ruby/ractor.h>

static ID id_original;

typedef struct {
    VALUE fiber;
    int argc;
    VALUE *argv;
} nb_transfer_t;

static VALUE call_original(VALUE argument)
{
    const nb_transfer_t *transfer = (nb_transfer_t *)argument;
    return rb_funcallv_kw(transfer->fiber, id_original, transfer->argc, transfer->argv,
                          RB_PASS_CALLED_KEYWORDS);
}

/* The same holds for a blocking fiber that a fiber of the loop has resumed. */
static VALUE call_transfer(int argc, VALUE *argv, VALUE self)
{
    nb_transfer_t transfer = {self, argc, argv};
    VALUE scheduler = rb_fiber_scheduler_get();
    nb_loop_t *loop = nb_is_loop(scheduler) ? nb_loop_any(scheduler) : NULL;
    if (!loop || loop->closed)
        return call_original((VALUE)&transfer);
    return nb_transferred_during(loop, call_original, (VALUE)&transfer);
}

/* @!visibility private - replaces Fiber#transfer. */
static VALUE rb_nb_native_watch_transfers(VALUE mod)
{
    VALUE cFiber = rb_path2class("Fiber");
    nb_keep_original(cFiber, id_original, rb_intern("transfer"));
    rb_ext_ractor_safe(true); /* other Ractors have no loop: there it is the original */
    rb_define_method(cFiber, "transfer", call_transfer, -1);
    rb_ext_ractor_safe(false);
    return Qnil;
}

/* @!visibility private - runs the block, which transfers to a fiber that has left (Fiber#raise). */
static VALUE rb_nb_scheduler_leave(VALUE self)
{
    return nb_transferred_during(nb_loop_get(self), nb_yield_block, Qnil);
}

/* @!visibility private - whether the fiber has left by Fiber#transfer, and has not come back. */
static VALUE rb_nb_scheduler_transferred_p(VALUE self, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    return !loop->closed && nb_is_transferred(loop, fiber) ? Qtrue : Qfalse;
}

void Init_nb_hooks_transfer(VALUE cScheduler)
{
    id_original = rb_intern("__nb_transfer");
    rb_define_method(cScheduler, "leave", rb_nb_scheduler_leave, 0);
    rb_define_method(cScheduler, "transferred?", rb_nb_scheduler_transferred_p, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "watch_transfers",
                               rb_nb_native_watch_transfers, 0);
}
