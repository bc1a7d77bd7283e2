/* time.c - kernel_sleep, timeout_after, and the one conversion of seconds. Ruby.
 * Read after: wait.h. */
#include "base/clock.h"
#include "hooks/hooks.h"

#define ORDINARY_SECONDS 1000000000 /* below, no interval can be out of any range */

static VALUE cExpired, cTimeoutError;

uint64_t nb_deadline(VALUE timeout)
{
    if (NIL_P(timeout))
        return NB_NEVER;
    if (RTEST(rb_obj_is_kind_of(timeout, rb_cNumeric)) ||
        !rb_respond_to(timeout,
                       rb_intern("divmod"))) /* sleep asks for that, Thread#join for to_f */
        return nb_clock_now() + nb_clock_ns(NUM2DBL(timeout));
    struct timespec interval = rb_time_timespec_interval(timeout);
    return nb_clock_now() + nb_clock_ns((double)interval.tv_sec + interval.tv_nsec / 1e9);
}

/* Kernel#sleep leaves the checks to the scheduler: the same errors as without one. */
void nb_check_interval(VALUE duration)
{
    if (RB_FIXNUM_P(duration) && FIX2LONG(duration) >= 0 && FIX2LONG(duration) < ORDINARY_SECONDS)
        return;
    if (RB_FLOAT_TYPE_P(duration) && RFLOAT_VALUE(duration) >= 0 &&
        RFLOAT_VALUE(duration) < ORDINARY_SECONDS)
        return;
    rb_time_timespec_interval(duration);
}

/* @overload kernel_sleep(duration = nil)
 *   Stops the fiber for a time, or until {#unblock}.
 *   @param duration [Numeric, nil] seconds >= 0, never less than asked; nil or absent: for ever
 *   @return [Boolean] whether it was woken before its time
 *   @raise [TypeError, ArgumentError] as Kernel#sleep
 *   @scheduling always waits
 *   @see https://docs.ruby-lang.org/en/3.4/Fiber/Scheduler.html */
static VALUE rb_nb_scheduler_kernel_sleep(int argc, VALUE *argv, VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    nb_park_t park;
    rb_check_arity(argc, 0, 1);
    VALUE duration = argc ? argv[0] : Qnil;
    if (!NIL_P(duration))
        nb_check_interval(duration);
    loop->counters.sleep_waits++;
    nb_park_init(loop, &park, NB_PARK_SLEEP);
    nb_park_deadline(&park, nb_deadline(duration));
    /* A bare `sleep` waits for a signal; a ConditionVariable's passes nil. */
    park.mask = argc == 0;
    return nb_park(&park) == NB_WOKEN_BY_TIMER ? Qfalse : Qtrue;
}

/* ---- timeout_after ------------------------------------------------------------------------ */

typedef struct nb_timeout {
    nb_timer_t timer;
    nb_loop_t *loop;
    VALUE fiber, duration, klass, message, raised;
} nb_timeout_t;

/* Called in the fiber, by nb_park. */
static void raise_expired(void *data)
{
    nb_timeout_t *timeout = data;
    VALUE klass = timeout->klass;
    if (!RB_TYPE_P(klass, T_CLASS))
        timeout->raised = klass;
    else
        timeout->raised = rb_funcall(klass == cTimeoutError ? cExpired : klass, rb_intern("new"),
                                     NIL_P(timeout->message) ? 0 : 1, timeout->message);
    rb_exc_raise(timeout->raised);
}

static void put_off(void *data)
{
    nb_timeout_t *timeout = data;
    nb_loop_add_timer(timeout->loop, &timeout->timer, nb_clock_now());
}

static void on_timeout(nb_timer_t *timer)
{
    nb_timeout_t *timeout = nb_container_of(timer, nb_timeout_t, timer);
    nb_park_t *park = nb_park_of(timeout->loop, timeout->fiber);
    if (park && nb_park_may_raise(park)) {
        park->raise = raise_expired;
        park->put_off = put_off;
        park->raise_data = timeout;
        nb_wake(park, NB_WOKEN_BY_EXCEPTION);
    } else { /* it runs right now, or something else is on its way: it is told at its next wait */
        nb_loop_add_timer(timeout->loop, timer, nb_clock_now() + 1000000);
    }
}

static VALUE timeout_body(VALUE argument)
{
    return rb_yield(((nb_timeout_t *)argument)->duration);
}

/* Without a class, Timeout.timeout must pass every `rescue => e` inside the block, as it does with
 * threads (there by a throw): Expired is not a StandardError, and becomes Timeout::Error here. */
static VALUE timeout_rescue(VALUE argument, VALUE error)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    if (error != timeout->raised)
        rb_exc_raise(error);
    VALUE translated = rb_funcall(cTimeoutError, rb_intern("new"), 1, timeout->message);
    rb_funcall(translated, rb_intern("set_backtrace"), 1,
               rb_funcall(error, rb_intern("backtrace"), 0));
    rb_exc_raise(translated);
}

static VALUE timeout_protected(VALUE argument)
{
    return rb_rescue2(timeout_body, argument, timeout_rescue, argument, cExpired, (VALUE)0);
}

static VALUE timeout_leave(VALUE argument)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    nb_timers_remove(&timeout->loop->timers, &timeout->timer);
    return Qnil;
}

/* @overload timeout_after(duration, exception, *arguments)
 *   Runs the block; when it waits past the deadline, raises in it. A block that computes without
 *   ever waiting is not interrupted.
 *   @param duration [Numeric] seconds >= 0
 *   @param exception [Class, Exception] what to raise; plain Timeout::Error cannot be rescued by
 *     `rescue => e` inside the block, as without a scheduler
 *   @yield [duration]
 *   @return the block's value
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_timeout_after(int argc, VALUE *argv, VALUE self)
{
    rb_check_arity(argc, 2, 3);
    nb_loop_t *loop = nb_loop_get(self);
    nb_check_interval(argv[0]);
    nb_timeout_t timeout = {
        .timer = {.index = NB_TIMER_IDLE, .on_due = on_timeout},
        .loop = loop,
        .fiber = rb_fiber_current(),
        .duration = argv[0],
        .klass = argv[1],
        .message = argc > 2 ? argv[2] : Qnil,
        .raised = Qundef,
    };
    nb_loop_add_timer(loop, &timeout.timer, nb_deadline(argv[0]));
    return rb_ensure(timeout_protected, (VALUE)&timeout, timeout_leave, (VALUE)&timeout);
}

void Init_nb_hooks_time(VALUE cScheduler)
{
    cTimeoutError = rb_path2class("Timeout::Error");
    cExpired = rb_define_class_under(cScheduler, "Expired", rb_eException);
    rb_define_method(cScheduler, "kernel_sleep", rb_nb_scheduler_kernel_sleep, -1);
    rb_define_method(cScheduler, "timeout_after", rb_nb_scheduler_timeout_after, -1);
}
