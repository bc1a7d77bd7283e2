/* time.c - kernel_sleep, and the one conversion of seconds. Ruby.
 * Read after: wait.h. */
#include "base/clock.h"
#include "hooks/hooks.h"

#define ORDINARY_SECONDS 1000000000 /* below, no interval can be out of any range */

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

void Init_nb_hooks_time(VALUE cScheduler)
{
    rb_define_method(cScheduler, "kernel_sleep", rb_nb_scheduler_kernel_sleep, -1);
}
