/* section.c - shield: a section during which nothing is raised in its fiber. Uses ruby.h.
 * Read after: loop/shield.h. */
#include "loop/shield.h"
#include "base/clock.h"
#include "hooks/hooks.h"

/* What was held may be held again by the next shield. */
static void release(nb_shield_t *shield)
{
    nb_loop_t *loop = shield->loop;
    VALUE kept = shield->kept;
    shield->kept = 0;
    for (long i = 0; kept && i < RARRAY_LEN(kept); i++) {
        VALUE one = RARRAY_AREF(kept, i);
        nb_interrupt_at(loop, RARRAY_AREF(one, 0), RARRAY_AREF(one, 1),
                        NUM2UINT(RARRAY_AREF(one, 2)));
    }
    while (!nb_list_empty(&shield->held)) {
        nb_held_t *held = nb_container_of(shield->held.next, nb_held_t, link);
        nb_list_remove(&held->link);
        held->release(held, false);
    }
    RB_GC_GUARD(kept);
}

/* What waits for the next wait of who has resumed the shield's fiber. */
static void strike_resumer(nb_shield_t *shield)
{
    nb_park_t *park = nb_park_of(shield->loop, shield->fiber);
    if (!park || park->owner == shield->fiber)
        return;
    VALUE owner = park->owner, exception = nb_take_deferred(shield->loop, owner);
    if (exception != Qnil)
        nb_interrupt_at(shield->loop, owner, exception, 0);
}

static void on_limit(nb_timer_t *timer)
{
    nb_shield_t *shield = nb_container_of(timer, nb_shield_t, timer);
    shield->open = true;
    strike_resumer(shield);
    release(shield);
}

static VALUE take_kept(nb_loop_t *loop, VALUE fiber)
{
    if (!RHASH_SIZE(loop->deferred))
        return Qnil;
    VALUE exception = nb_take_deferred(loop, fiber);
    if (exception == Qnil && loop->current && loop->current != fiber)
        exception = nb_take_deferred(loop, loop->current);
    return exception;
}

static void raise_if_any(VALUE exception)
{
    if (exception != Qnil)
        nb_raise(exception);
}

/* Keeps what the fiber would raise at its next wait, which may be the block's first. What waits for
 * who has resumed it stays where it is, because the block may suspend its fiber (as Enumerator#next
 * does), and be resumed no more. No wait in a shield takes it (loop/wait.c). */
static void keep_what_waits(nb_shield_t *shield)
{
    nb_loop_t *loop = shield->loop;
    if (!RHASH_SIZE(loop->deferred))
        return;
    for (VALUE one; (one = nb_take_deferred(loop, shield->fiber)) != Qnil;)
        nb_shield_add(shield, shield->fiber, one, shield->depth - 1);
    if (loop->current && loop->current != shield->fiber &&
        !NIL_P(rb_hash_aref(loop->deferred, loop->current)))
        nb_shield_start_limit(shield);
}

static VALUE shield_body(VALUE argument)
{
    keep_what_waits((nb_shield_t *)argument);
    VALUE value = rb_yield_values(0);
    ((nb_shield_t *)argument)->ended = true;
    return value;
}

static void unlink_shield(nb_shield_t *shield)
{
    nb_loop_t *loop = shield->loop;
    nb_timers_remove(&loop->timers, &shield->timer);
    if (shield->outer) /* the map has room, except in a forked child */
        (void)nb_ptrmap_add(&loop->shields, shield->fiber, shield->outer);
    else
        nb_ptrmap_remove(&loop->shields, shield->fiber);
}

static VALUE shield_leave(VALUE argument)
{
    nb_shield_t *shield = (nb_shield_t *)argument;
    nb_loop_t *loop = shield->loop;
    if (loop->closed)
        return Qnil;
    unlink_shield(shield);
    nb_held_t *first = NULL;
    if (shield->ended && !shield->kept && !nb_list_empty(&shield->held)) {
        first = nb_container_of(shield->held.next, nb_held_t, link);
        nb_list_remove(&first->link);
    }
    release(shield);
    VALUE exception = shield->ended ? take_kept(loop, shield->fiber) : Qnil;
    if (first) /* the first strikes now, the other at the next wait */
        first->release(first, exception == Qnil);
    raise_if_any(exception);
    return Qnil;
}

/* A shield holds back what comes through the loop. What Thread#raise has left for the thread (a
 * signal, the timeout of a fiber that computes) is on its way already, and would strike inside. As
 * a rule Ruby looks before it comes here, but not after a call in C that lets other threads run
 * without a look. */
static void raise_what_came(nb_loop_t *loop)
{
    if (loop->overdue && loop->overdue == loop->current)
        nb_take_interrupts(Qnil);
    rb_thread_check_ints();
}

/* @overload shield(seconds = nil)
 *   Runs the block; what others raise in the fiber waits until it has ended.
 *   @param seconds [Numeric, nil] the longest time that it waits
 *   @yield
 *   @return the block's value
 *   @raise what was to be raised, when the block has ended
 *   @scheduling may wait, as the block does */
static VALUE rb_nb_scheduler_shield(int argc, VALUE *argv, VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    rb_check_arity(argc, 0, 1);
    rb_need_block();
    nb_chaos_step(loop);
    VALUE fiber = rb_fiber_current();
    nb_shield_t shield = {
        .loop = loop,
        .fiber = fiber,
        .outer = nb_ptrmap_get(&loop->shields, fiber),
        .limit_ns = argc ? nb_interval_ns(argv[0]) : NB_NEVER,
        .timer = {.index = NB_TIMER_IDLE, .on_due = on_limit},
    };
    shield.depth = shield.outer ? shield.outer->depth + 1 : 1;
    nb_list_init(&shield.held);
    raise_what_came(loop);
    if (nb_ptrmap_add(&loop->shields, fiber, &shield) < 0)
        rb_memerror();
    VALUE value = rb_ensure(shield_body, (VALUE)&shield, shield_leave, (VALUE)&shield);
    RB_GC_GUARD(fiber);
    return value;
}

/* @!visibility private - of the current fiber. */
static VALUE rb_nb_scheduler_shield_depth(VALUE self)
{
    return UINT2NUM(nb_shield_depth(nb_loop_any(self), rb_fiber_current()));
}

/* @!visibility private - fiber_interrupt with the number of shields around the cause. */
static VALUE rb_nb_scheduler_interrupt_at(VALUE self, VALUE fiber, VALUE exception, VALUE depth)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (!loop->closed)
        nb_interrupt_at(loop, fiber, exception, NUM2UINT(depth));
    return Qnil;
}

/* @!visibility private - throws in the fiber, as fiber_interrupt raises. */
static VALUE rb_nb_scheduler_throw_in(VALUE self, VALUE fiber, VALUE tag, VALUE value)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (!loop->closed)
        nb_interrupt(loop, fiber, rb_ary_new_from_args(2, tag, value));
    return Qnil;
}

void Init_nb_hooks_section(VALUE cScheduler)
{
    rb_define_method(cScheduler, "shield", rb_nb_scheduler_shield, -1);
    rb_define_method(cScheduler, "shield_depth", rb_nb_scheduler_shield_depth, 0);
    rb_define_method(cScheduler, "interrupt_at", rb_nb_scheduler_interrupt_at, 3);
    rb_define_private_method(cScheduler, "throw_in", rb_nb_scheduler_throw_in, 3);
}
