/* idle.c - idle: waits that do not keep the loop running. Uses ruby.h. Read after: wait.h. */
#include "hooks/hooks.h"

void nb_idle_over(nb_loop_t *loop, VALUE fiber)
{
    if (!nb_ptrmap_get(&loop->idle, fiber))
        return;
    nb_ptrmap_remove(&loop->idle, fiber);
    loop->fibers++;
    loop->idle_fibers--;
}

void nb_idle_begin(nb_loop_t *loop, VALUE fiber)
{
    uintptr_t depth = (uintptr_t)nb_ptrmap_get(&loop->idle, fiber);
    if (fiber == loop->leader)
        return;
    if (nb_ptrmap_add(&loop->idle, fiber, (void *)(depth + 1)) < 0)
        rb_memerror();
    if (depth)
        return;
    loop->fibers--;
    loop->idle_fibers++;
    nb_fiber_left(loop);
}

void nb_idle_end(nb_loop_t *loop, VALUE fiber)
{
    uintptr_t depth = (uintptr_t)nb_ptrmap_get(&loop->idle, fiber);
    if (depth > 1)
        nb_ptrmap_put(&loop->idle, fiber, (void *)(depth - 1));
    else
        nb_idle_over(loop, fiber);
}

typedef struct {
    nb_loop_t *loop;
    VALUE fiber; /* the scheduled one, in which others may have resumed each other */
    pid_t pid;   /* where it began: a forked child counts anew */
} nb_idle_t;

static VALUE idle_leave(VALUE argument)
{
    const nb_idle_t *idle = (nb_idle_t *)argument;
    if (!idle->loop->closed && idle->loop->pid == idle->pid)
        nb_idle_end(idle->loop, idle->fiber);
    return Qnil;
}

/* @overload idle
 *   Runs the block, in which the fiber waits without keeping the loop running: when only such
 *   fibers are left, `run` returns and they are cancelled with NB::Cancelled. For pools whose
 *   fibers wait for work. In the block of NB.run itself it changes nothing.
 *   @yield the wait
 *   @return the block's value
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_idle(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    nb_idle_t idle = {loop, loop->current ? loop->current : rb_fiber_current(), loop->pid};
    nb_idle_begin(loop, idle.fiber);
    return rb_ensure(nb_yield_block, Qnil, idle_leave, (VALUE)&idle);
}

/* @!visibility private - from now on the fiber does not keep the loop running. */
static VALUE rb_nb_scheduler_idle_begin(VALUE self, VALUE fiber)
{
    nb_idle_begin(nb_loop_get(self), fiber);
    return Qnil;
}

/* @!visibility private */
static VALUE rb_nb_scheduler_idle_end(VALUE self, VALUE fiber)
{
    nb_idle_end(nb_loop_get(self), fiber);
    return Qnil;
}

void Init_nb_hooks_idle(VALUE cScheduler)
{
    rb_define_method(cScheduler, "idle", rb_nb_scheduler_idle, 0);
    rb_define_private_method(cScheduler, "idle_begin", rb_nb_scheduler_idle_begin, 1);
    rb_define_private_method(cScheduler, "idle_end", rb_nb_scheduler_idle_end, 1);
}
