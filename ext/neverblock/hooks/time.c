/* time.c - kernel_sleep, the one conversion of seconds, the start of a virtual clock. Uses ruby.h.
 * Read after: wait.h. */
#include "base/clock.h"
#include "hooks/early_unblock.h"
#include "hooks/hooks.h"
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/version.h>
#include <string.h>

#define ORDINARY_SECONDS 1000000000 /* below, no interval can be out of any range */

uint64_t nb_interval_ns(VALUE timeout)
{
    if (NIL_P(timeout))
        return NB_NEVER;
    if (RTEST(rb_obj_is_kind_of(timeout, rb_cNumeric)) ||
        !rb_respond_to(timeout,
                       rb_intern("divmod"))) /* sleep asks for that, Thread#join for to_f */
        return nb_clock_ns(NUM2DBL(timeout));
    struct timespec interval = rb_time_timespec_interval(timeout);
    return nb_clock_ns((double)interval.tv_sec + interval.tv_nsec / 1e9);
}

uint64_t nb_deadline(nb_loop_t *loop, VALUE timeout)
{
    uint64_t ns = nb_interval_ns(timeout);
    return ns == NB_NEVER ? NB_NEVER : nb_loop_clock(loop) + ns;
}

/* Kernel#sleep leaves the checks to the scheduler: raises the same errors as without one. */
void nb_check_interval(VALUE duration)
{
    if (RB_FIXNUM_P(duration) && FIX2LONG(duration) >= 0 && FIX2LONG(duration) < ORDINARY_SECONDS)
        return;
    if (RB_FLOAT_TYPE_P(duration) && RFLOAT_VALUE(duration) >= 0 &&
        RFLOAT_VALUE(duration) < ORDINARY_SECONDS)
        return;
    rb_time_timespec_interval(duration);
}

/* Before Ruby 3.3, Kernel#sleep refuses nil; Mutex#sleep and others come here with it, too. */
static void check_nil(void)
{
#if RUBY_API_VERSION_CODE < 30300
    VALUE frame = nb_caller_frame();
    VALUE name = NIL_P(frame) ? Qnil : rb_profile_frame_qualified_method_name(frame);
    if (!NIL_P(name) && (!strcmp(StringValueCStr(name), "Kernel#sleep") ||
                         !strcmp(StringValueCStr(name), "Kernel.sleep")))
        rb_time_timespec_interval(Qnil);
#endif
}

/* @overload kernel_sleep(duration = nil)
 *   Stops the fiber for a time, or until {#unblock}.
 *   @param duration [Numeric, nil] seconds >= 0, never less than asked; nil or absent: forever
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
    else if (argc)
        check_nil();
    loop->counters.sleep_waits++;
    nb_park_init(loop, &park, NB_PARK_SLEEP);
    nb_park_deadline(&park, nb_deadline(loop, duration));
    park.for_signal = argc == 0; /* a ConditionVariable's passes nil */
    if (argc && NIL_P(duration) && !nb_ptrmap_get(&loop->mutex_sleeps, park.fiber))
        park.blocker = loop->thread; /* IO#close, in whose name it is unblocked */
    nb_chaos_pause(loop);
    if (nb_early_unblock_came(&park))
        return Qtrue;
    return nb_park(&park) == NB_WOKEN_BY_TIMER ? Qfalse : Qtrue;
}

/* @!visibility private - whose sleep Thread#wakeup ends: a fiber, or nil. Returns the one before.
 */
static VALUE rb_nb_scheduler_lead(VALUE self, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    VALUE outer = loop->leader;
    loop->leader = fiber;
    return outer;
}

/* @!visibility private - ends the sleep of the code that thread called NB.run with, if it sleeps.
 */
static VALUE rb_nb_native_end_sleep(VALUE mod, VALUE thread)
{
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next) {
        nb_loop_t *loop = nb_container_of(item, nb_loop_t, link);
        nb_park_t *park =
            loop->thread == thread && !NIL_P(loop->leader) ? nb_park_of(loop, loop->leader) : NULL;
        if (park && park->kind == NB_PARK_SLEEP)
            nb_unblock(park);
    }
    return Qnil;
}

/* @!visibility private - makes the loop's time virtual, starting from the real time. */
static VALUE rb_nb_scheduler_use_virtual_clock(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    loop->now_ns = loop->virtual_ns = nb_clock_now();
    return Qnil;
}

/* @!visibility private - the time of the loop that runs the current fiber, in nanoseconds; nil if
 *   it is real. */
static VALUE rb_nb_native_virtual_ns(VALUE mod)
{
    VALUE scheduler = rb_fiber_scheduler_current();
    nb_loop_t *loop = nb_is_loop(scheduler) ? nb_loop_any(scheduler) : NULL;
    return loop && loop->virtual_ns ? ULL2NUM(nb_loop_clock(loop)) : Qnil;
}

void Init_nb_hooks_time(VALUE cScheduler)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_method(cScheduler, "kernel_sleep", rb_nb_scheduler_kernel_sleep, -1);
    rb_define_private_method(cScheduler, "lead", rb_nb_scheduler_lead, 1);
    rb_define_private_method(cScheduler, "use_virtual_clock", rb_nb_scheduler_use_virtual_clock, 0);
    rb_define_singleton_method(mNative, "end_sleep", rb_nb_native_end_sleep, 1);
    rb_define_singleton_method(mNative, "virtual_ns", rb_nb_native_virtual_ns, 0);
}
