/* timeout.c - timeout_after: a deadline for a block, whether it waits or computes. Ruby.
 * Read after: wait.h. */
#include "hooks/hooks.h"
#include "base/clock.h"
#include "loop/timers.h"
#include <pthread.h>
#include <ruby/thread.h>

/* What the loop has for ending a block by itself before the thread does. */
#define GRACE_NS 10000000

static VALUE cExpired, cTimeoutError;

typedef struct {
    nb_timer_t timer;
    nb_loop_t *loop;
    uint64_t deadline_ns;
    VALUE fiber, duration, klass, message, raised;
    bool interrupted; /* by the thread that watches blocks that compute */
} nb_timeout_t;

/* May run Ruby: the application's own class. */
static VALUE exception_of(VALUE klass, VALUE message)
{
    if (!RB_TYPE_P(klass, T_CLASS))
        return klass;
    return rb_funcall(klass == cTimeoutError ? cExpired : klass, rb_intern("new"),
                      NIL_P(message) ? 0 : 1, message);
}

/* ---- a block that waits -------------------------------------------------------------------- */

/* Called in the fiber, by nb_park. */
static void raise_expired(void *data)
{
    nb_timeout_t *timeout = data;
    timeout->raised = exception_of(timeout->klass, timeout->message);
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

/* ---- a block that computes ----------------------------------------------------------------- */

/* The loop does not turn then. A thread of Ruby's, as Timeout itself has one, sleeps until the
 * earliest deadline it knows of, and raises in the loop's thread. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t earlier;
    uint64_t wake_ns; /* when it wakes by itself */
    bool started, told;
} overtime;

static void wake_overtime(void *data)
{
    (void)data;
    pthread_mutex_lock(&overtime.lock);
    overtime.told = true;
    pthread_cond_signal(&overtime.earlier);
    pthread_mutex_unlock(&overtime.lock);
}

/* In the beginning, and in a forked child, which has no such thread. */
static void forget_overtime(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&overtime.lock, NULL);
    pthread_cond_init(&overtime.earlier, &attributes);
    overtime.wake_ns = NB_NEVER;
    overtime.started = overtime.told = false;
}

static void watch_overtime(uint64_t deadline_ns)
{
    if (deadline_ns >= NB_NEVER - GRACE_NS || deadline_ns + GRACE_NS >= overtime.wake_ns)
        return;
    overtime.wake_ns = deadline_ns + GRACE_NS;
    if (!overtime.started)
        rb_funcall(rb_path2class("NB::Overtime"), rb_intern("start"), 0);
    overtime.started = true;
    wake_overtime(NULL);
}

static void *sleep_until_overtime(void *data)
{
    uint64_t wake_ns = *(uint64_t *)data;
    struct timespec wake = {.tv_sec = (time_t)(wake_ns / 1000000000),
                            .tv_nsec = (long)(wake_ns % 1000000000)};
    pthread_mutex_lock(&overtime.lock);
    while (!overtime.told) {
        if (wake_ns == NB_NEVER)
            pthread_cond_wait(&overtime.earlier, &overtime.lock);
        else if (pthread_cond_timedwait(&overtime.earlier, &overtime.lock, &wake))
            break; /* it is time */
    }
    overtime.told = false;
    pthread_mutex_unlock(&overtime.lock);
    return NULL;
}

static bool computes(const nb_timeout_t *timeout)
{
    return timeout->loop->current == timeout->fiber && !nb_park_of(timeout->loop, timeout->fiber);
}

/* The timeout of this loop that computes beyond its deadline, the earliest of several; next_ns
 * becomes when to look again. */
static nb_timeout_t *overdue_in(nb_loop_t *loop, uint64_t now, uint64_t *next_ns)
{
    nb_timeout_t *found = NULL;
    for (size_t i = 0; i < loop->timers.count; i++) {
        nb_timer_t *timer = nb_timers_at(&loop->timers, i);
        if (timer->on_due != on_timeout)
            continue;
        nb_timeout_t *timeout = nb_container_of(timer, nb_timeout_t, timer);
        uint64_t look = timeout->deadline_ns + GRACE_NS;
        if (look <= now && computes(timeout)) {
            if (!found || timeout->deadline_ns < found->deadline_ns)
                found = timeout;
            look = now + GRACE_NS;
        } else if (look <= now) {
            look = now + NB_LOOK_NS; /* another fiber computes, and it waits for its turn */
        }
        if (look < *next_ns)
            *next_ns = look;
    }
    return found;
}

static nb_timeout_t *overdue(void)
{
    uint64_t now = nb_clock_now();
    overtime.wake_ns = NB_NEVER;
    nb_timeout_t *found = NULL;
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next) {
        nb_timeout_t *timeout =
            overdue_in(nb_container_of(item, nb_loop_t, link), now, &overtime.wake_ns);
        if (timeout && (!found || timeout->deadline_ns < found->deadline_ns))
            found = timeout;
    }
    return found;
}

/* Masks of Thread.handle_interrupt lie on the thread: with another fiber inside of one, what is
 * raised in the thread may wait, and come in a fiber that it is not for. */
static bool others_mask(const nb_timeout_t *timeout)
{
    VALUE fiber = timeout->fiber, repairs = rb_path2class("NB::Repairs");
    return rb_check_funcall(repairs, rb_intern("masking_beside?"), 1, &fiber) == Qtrue;
}

static VALUE make_exception(VALUE data)
{
    const nb_timeout_t *timeout = (const nb_timeout_t *)data;
    return exception_of(timeout->klass, timeout->message);
}

/* What making it raises goes to the block as well: the watching thread has to go on. */
static VALUE exception_for(const nb_timeout_t *timeout)
{
    int tag = 0;
    VALUE exception = rb_protect(make_exception, (VALUE)timeout, &tag);
    if (!tag)
        return exception;
    exception = rb_errinfo();
    rb_set_errinfo(Qnil);
    return exception;
}

/* @!visibility private - sleeps until a deadline may have passed, and ends a block that has
 * computed beyond it. Of the thread in NB::Overtime. */
static VALUE rb_nb_native_overtime(VALUE mod)
{
    uint64_t wake_ns = overtime.wake_ns;
    rb_nogvl(sleep_until_overtime, &wake_ns, wake_overtime, NULL, 0);
    nb_timeout_t *timeout = overdue();
    if (!timeout || others_mask(timeout))
        return Qfalse;
    uint64_t deadline_ns = timeout->deadline_ns;
    VALUE exception = exception_for(timeout);
    if (overdue() != timeout || timeout->deadline_ns != deadline_ns)
        return Qfalse; /* the block has ended while the exception was made */
    nb_timers_remove(&timeout->loop->timers, &timeout->timer);
    timeout->raised = exception;
    timeout->interrupted = true;
    timeout->loop->overdue = timeout->fiber;
    rb_funcall(timeout->loop->thread, rb_intern("raise"), 1, exception);
    return Qtrue;
}

/* ---- the hook ------------------------------------------------------------------------------ */

static VALUE timeout_body(VALUE argument)
{
    nb_timeout_t *timeout = (nb_timeout_t *)argument;
    VALUE value = rb_yield(timeout->duration);
    if (timeout->interrupted) /* Thread.handle_interrupt has held it back */
        nb_take_interrupts(Qnil);
    return value;
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

/* The block may have ended by another exception before Thread#raise came through. */
static void forget_interrupt(nb_timeout_t *timeout)
{
    int tag = 0;
    rb_protect(nb_take_interrupts, Qnil, &tag);
    if (timeout->loop->overdue == timeout->fiber)
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
    if (timeout->interrupted)
        forget_interrupt(timeout);
    return Qnil;
}

/* @overload timeout_after(duration, exception, *arguments)
 *   Runs the block; raises in it when it waits, or computes, past the deadline.
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
    timeout.deadline_ns = nb_deadline(argv[0]);
    nb_loop_add_timer(loop, &timeout.timer, timeout.deadline_ns);
    watch_overtime(timeout.deadline_ns);
    return rb_ensure(timeout_protected, (VALUE)&timeout, timeout_leave, (VALUE)&timeout);
}

void Init_nb_hooks_timeout(VALUE cScheduler)
{
    cTimeoutError = rb_path2class("Timeout::Error");
    cExpired = rb_define_class_under(cScheduler, "Expired", rb_eException);
    rb_define_method(cScheduler, "timeout_after", rb_nb_scheduler_timeout_after, -1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "overtime", rb_nb_native_overtime, 0);
    forget_overtime();
    pthread_atfork(NULL, NULL, forget_overtime);
}
