/* timeout.c - timeout_after: a deadline for a block. Uses ruby.h.
 *
 * If the block waits, the loop's timer raises in it; if it computes, overtime.c does.
 *
 * Read after: timeout.h, wait.h.
 */
#include "base/clock.h"
#include "hooks/hooks.h"
#include "hooks/overtime.h"
#include "hooks/timeout_error.h"
#include "loop/resume_chain.h"

#define ENDLESS_SECONDS 9e9 /* 285 years */

/* ---- a block that waits -------------------------------------------------------------------- */

/* Called in the fiber, by nb_park. */
static void raise_expired(void *data)
{
    nb_timeout_t *timeout = data;
    timeout->raised = nb_timeout_exception(timeout);
    rb_exc_raise(timeout->raised);
}

static void put_off(void *data)
{
    nb_timeout_t *timeout = data;
    nb_loop_add_timer(timeout->loop, &timeout->timer, nb_loop_clock(timeout->loop));
}

/* The shield that held it back has ended, or its time limit has. */
static void release(nb_held_t *held, bool strike)
{
    nb_timeout_t *timeout = nb_container_of(held, nb_timeout_t, held);
    if (strike)
        raise_expired(timeout);
    put_off(timeout);
}

static bool runs(const nb_timeout_t *timeout)
{
    VALUE current = rb_fiber_current();
    return timeout->loop->current == timeout->fiber || current == timeout->fiber ||
           nb_resume_chain_reaches(timeout->fiber, current);
}

static void on_timeout(nb_timer_t *timer)
{
    nb_timeout_t *timeout = nb_container_of(timer, nb_timeout_t, timer);
    if (nb_shield_hold(timeout->loop, timeout->fiber, timeout->depth, &timeout->held))
        return;
    nb_park_t *park = nb_park_of(timeout->loop, timeout->fiber);
    if (park && nb_park_may_raise(park)) {
        park->raise = raise_expired;
        park->put_off = put_off;
        park->raise_data = timeout;
        nb_wake(park, NB_WOKEN_BY_EXCEPTION);
    } else if (park || runs(timeout) ||
               !nb_suspended_timer_begin(&timeout->suspended, timeout->fiber)) {
        /* It runs right now, or something else is on its way: raises at its next wait. */
        nb_loop_add_timer(timeout->loop, timer, nb_loop_clock(timeout->loop) + 1000000);
    }
}

/* Until then its stack must stay, because the timer lies on it. */
static void mark_timeouts(nb_loop_t *loop)
{
    for (size_t i = 0; i < loop->timers.count; i++) {
        nb_timer_t *timer = nb_timers_at(&loop->timers, i);
        if (timer->on_due == on_timeout)
            rb_gc_mark(nb_container_of(timer, nb_timeout_t, timer)->fiber);
    }
}

/* ---- the hook ------------------------------------------------------------------------------ */

static VALUE timeout_body(VALUE argument)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    if (!timeout->loop->virtual_ns && !timeout->lets_compute) /* there computing takes no time */
        nb_overtime_watch(timeout->deadline_ns);
    VALUE value = rb_yield(timeout->duration);
    if (timeout->interrupted) /* Thread.handle_interrupt has held it back */
        nb_take_interrupts(Qnil);
    if (timeout->suspended.linked) /* it was over while others ran, and nothing has waited since */
        raise_expired(timeout);
    return value;
}

/* Without a class, Timeout.timeout must pass every `rescue => e` inside the block, as it does with
 * threads (there through a throw). So Expired is not a StandardError, and becomes Timeout::Error
 * here. */
static VALUE timeout_rescue(VALUE argument, VALUE error)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    if (error != timeout->raised)
        rb_exc_raise(error);
    VALUE translated = rb_funcall(rb_cNBTimeoutError, rb_intern("new"), 1, timeout->message);
    rb_funcall(translated, rb_intern("set_backtrace"), 1,
               rb_funcall(error, rb_intern("backtrace"), 0));
    if (nb_expired_is_shown())
        nb_set_cause(translated, error);
    timeout->translated = translated;
    return Qnil;
}

static VALUE timeout_protected(VALUE argument)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    VALUE value = rb_rescue2(timeout_body, argument, timeout_rescue, argument, rb_cNBTimeoutExpired,
                             (VALUE)0);
    if (timeout->translated)
        rb_exc_raise(timeout->translated);
    return value;
}

/* The block may have ended by another exception before Thread#raise came through. */
static void forget_interrupt(nb_timeout_t *timeout)
{
    int tag = 0;
    rb_protect(nb_take_interrupts, Qnil, &tag);
    if (timeout->loop->overdue == timeout->loop->current)
        timeout->loop->overdue = 0;
    if (!tag)
        return;
    if (rb_errinfo() != timeout->raised)
        rb_jump_tag(tag);
    rb_set_errinfo(Qnil);
}

static VALUE timeout_leave(VALUE argument)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    nb_timers_remove(&timeout->loop->timers, &timeout->timer);
    nb_suspended_timer_end(&timeout->suspended, timeout->fiber);
    if (timeout->traced)
        nb_overtime_trace_no_more(timeout->loop);
    nb_list_remove(&timeout->held.link);
    if (timeout->interrupted)
        forget_interrupt(timeout);
    return Qnil;
}

/* Beyond what the clock can count, as Float::INFINITY is. */
static bool is_endless(VALUE duration)
{
    return RTEST(rb_obj_is_kind_of(duration, rb_cNumeric)) &&
           !(NUM2DBL(duration) < ENDLESS_SECONDS);
}

/* lets_compute: only waits of the block end it. */
static VALUE limit(int argc, VALUE *argv, VALUE self, bool lets_compute)
{
    rb_check_arity(argc, 2, 3);
    nb_loop_t *loop = nb_loop_get(self);
    if (is_endless(argv[0]))
        return rb_yield(argv[0]);
    nb_check_interval(argv[0]);
    nb_chaos_step(loop);
    nb_timeout_t timeout = {
        .timer = {.index = NB_TIMER_IDLE, .on_due = on_timeout},
        .loop = loop,
        .fiber = rb_fiber_current(),
        .duration = argv[0],
        .klass = argv[1],
        .message = argc > 2 ? argv[2] : Qnil,
        .raised = Qundef,
        .held.release = release,
        .lets_compute = lets_compute,
    };
    timeout.depth = nb_shield_depth(loop, timeout.fiber);
    nb_list_init(&timeout.held.link);
    timeout.suspended = (nb_suspended_timer_t){.loop = loop, .timer = &timeout.timer};
    loop->mark_timeouts = mark_timeouts;
    timeout.deadline_ns = nb_deadline(loop, argv[0]);
    nb_loop_add_timer(loop, &timeout.timer, timeout.deadline_ns);
    return rb_ensure(timeout_protected, (VALUE)&timeout, timeout_leave, (VALUE)&timeout);
}

/* @overload timeout_after(duration, exception, *arguments)
 *   Runs the block; raises in it if it waits, or computes, past the deadline.
 *   @param duration [Numeric] seconds >= 0; from 9e9 on there is no deadline, as for NaN
 *   @param exception [Class, Exception] what to raise; plain Timeout::Error cannot be rescued by
 *     `rescue => e` inside the block, as without a scheduler
 *   @yield [duration]
 *   @return the block's value
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_timeout_after(int argc, VALUE *argv, VALUE self)
{
    return limit(argc, argv, self, false);
}

/* @!visibility private - the same, but a block that computes goes on: it ends at its next wait. */
static VALUE rb_nb_scheduler_timeout_at_wait(int argc, VALUE *argv, VALUE self)
{
    return limit(argc, argv, self, true);
}

/* @!visibility private - ends at once every block whose timeout raises an instance of klass. */
static VALUE rb_nb_scheduler_expire(VALUE self, VALUE klass)
{
    nb_loop_t *loop = nb_loop_get(self);
    size_t count = 0;
    VALUE buffer;
    nb_timer_t **found = ALLOCV_N(nb_timer_t *, buffer, loop->timers.count + 1);
    for (size_t i = 0; i < loop->timers.count; i++) {
        nb_timer_t *timer = nb_timers_at(&loop->timers, i);
        if (timer->on_due == on_timeout &&
            RTEST(rb_obj_is_kind_of(nb_container_of(timer, nb_timeout_t, timer)->klass, klass)))
            found[count++] = timer;
    }
    uint64_t now = nb_loop_clock(loop);
    for (size_t i = 0; i < count; i++)
        nb_loop_set_timer(loop, found[i], now);
    ALLOCV_END(buffer);
    return Qnil;
}

void Init_nb_hooks_timeout(VALUE cScheduler)
{
    nb_timeout_error_init(cScheduler);
    rb_define_method(cScheduler, "timeout_after", rb_nb_scheduler_timeout_after, -1);
    rb_define_private_method(cScheduler, "timeout_at_wait", rb_nb_scheduler_timeout_at_wait, -1);
    rb_define_private_method(cScheduler, "expire", rb_nb_scheduler_expire, 1);
    nb_overtime_init(on_timeout);
}
