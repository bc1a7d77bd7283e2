/* overtime.c - ends a block of timeout_after that computes. Uses ruby.h.
 *
 * The loop does not turn then. A Ruby thread, as Timeout itself has one, sleeps until the earliest
 * deadline that it knows, and raises in the loop's thread.
 *
 * Read after: overtime.h.
 */
#include "hooks/overtime.h"
#include "hooks/timeout_error.h"
#include "base/condition.h"
#include "loop/resume_chain.h"
#include <pthread.h>
#include <ruby/debug.h>
#include <ruby/thread.h>

/* What the loop uses to end a block by itself before the thread does. */
#define GRACE_NS 10000000
#define CALLS_IN_A_LINE 1000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t earlier;
    uint64_t wake_ns; /* when it wakes by itself */
    bool started, runs, told;
    void (*on_due)(nb_timer_t *timer); /* of timeouts */
} overtime;

static void wake_thread(void *data)
{
    (void)data;
    pthread_mutex_lock(&overtime.lock);
    overtime.told = true;
    pthread_cond_signal(&overtime.earlier);
    pthread_mutex_unlock(&overtime.lock);
}

/* At the start, and in a forked child, which has no such thread. */
static void forget(void)
{
    pthread_mutex_init(&overtime.lock, NULL);
    nb_condition_init(&overtime.earlier);
    overtime.wake_ns = NB_NEVER;
    overtime.started = overtime.runs = overtime.told = false;
}

static VALUE start_thread(VALUE unused)
{
    return rb_funcall(rb_path2class("NB::Overtime"), rb_intern("start"), 0);
}

/* The new thread may have ended the block that made it before this returns. */
static void start(void)
{
    int tag = 0;
    overtime.started = true;
    rb_protect(start_thread, Qnil, &tag);
    if (!tag)
        return;
    if (!overtime.runs) {
        overtime.started = false;
        overtime.wake_ns = NB_NEVER;
    }
    rb_jump_tag(tag);
}

void nb_overtime_watch(uint64_t deadline_ns)
{
    if (deadline_ns >= NB_NEVER - GRACE_NS || deadline_ns + GRACE_NS >= overtime.wake_ns)
        return;
    overtime.wake_ns = deadline_ns + GRACE_NS;
    if (!overtime.started)
        start();
    wake_thread(NULL);
}

static void *sleep_until_due(void *data)
{
    uint64_t wake_ns = *(uint64_t *)data;
    pthread_mutex_lock(&overtime.lock);
    while (!overtime.told)
        if (nb_condition_wait(&overtime.earlier, &overtime.lock, wake_ns))
            break; /* it is time */
    overtime.told = false;
    pthread_mutex_unlock(&overtime.lock);
    return NULL;
}

static bool computes(const nb_timeout_t *timeout)
{
    nb_loop_t *loop = timeout->loop;
    bool runs = loop->current == timeout->fiber ||
                (loop->current && nb_resume_chain_reaches(loop->current, timeout->fiber));
    return runs && !nb_park_of(loop, timeout->fiber) &&
           !nb_shielded(loop, timeout->fiber, timeout->depth);
}

/* The timeout of this loop whose block computes beyond its deadline, the earliest of several.
 * next_ns becomes the time of the next check. */
static nb_timeout_t *overdue_in(nb_loop_t *loop, uint64_t now, uint64_t *next_ns)
{
    nb_timeout_t *found = NULL;
    for (size_t i = 0; !loop->virtual_ns && i < loop->timers.count; i++) {
        nb_timer_t *timer = nb_timers_at(&loop->timers, i);
        if (timer->on_due != overtime.on_due)
            continue;
        nb_timeout_t *timeout = nb_container_of(timer, nb_timeout_t, timer);
        if (timeout->lets_compute)
            continue;
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

/* Masks of Thread.handle_interrupt belong to the thread: while another fiber is inside one, what is
 * raised in the thread may wait, and strike a fiber that it is not meant for. */
static bool others_mask(const nb_timeout_t *timeout)
{
    VALUE fiber = timeout->fiber, repairs = rb_path2class("NB::Repairs");
    return rb_check_funcall(repairs, rb_intern("masking_beside?"), 1, &fiber) == Qtrue;
}

static bool masks_itself(const nb_timeout_t *timeout)
{
    VALUE fiber = timeout->fiber, repairs = rb_path2class("NB::Repairs");
    return rb_check_funcall(repairs, rb_intern("masks?"), 1, &fiber) == Qtrue;
}

/* The line that the traced code of this thread reached last, in this frame; 0: none yet. */
static _Thread_local int traced_line;

/* This many C calls, or visits to the same line, make a loop. */
static bool stays_in_line(nb_loop_t *loop)
{
    return ++loop->traced_calls > CALLS_IN_A_LINE;
}

/* The line is before the last one: the frame has jumped back. */
static bool has_jumped_back(nb_loop_t *loop)
{
    int line = rb_sourceline(), last = traced_line;
    if (line == last)
        return stays_in_line(loop);
    traced_line = line;
    loop->traced_calls = 0;
    return line < last;
}

/* Whether an exception may strike here, as one of Thread#raise may: where a method or a block
 * returns, and where a frame jumps back. At any other point an `ensure` could be beginning, and
 * what it gives back would be lost. And Ruby's own C code calls methods at points where no
 * exception is expected: Mutex#unlock is half done when it calls {#unblock}. A loop in C
 * (`(1..n).each(&:hash)`) is recognized by its number of calls. */
static bool may_strike(nb_loop_t *loop, rb_event_flag_t event, VALUE self)
{
    bool strikes = false;
    if (event == RUBY_EVENT_LINE)
        strikes = has_jumped_back(loop);
    else if (event == RUBY_EVENT_C_CALL)
        strikes = stays_in_line(loop);
    else
        traced_line = loop->traced_calls = 0;
    return (strikes || event & (RUBY_EVENT_RETURN | RUBY_EVENT_B_RETURN)) && self != loop->self;
}

static void raise_at_next_step(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE klass)
{
    nb_loop_t *loop = nb_loop_current();
    uint64_t next_ns = NB_NEVER;
    if (loop && !loop->traced) /* of the parent that forked this one */
        rb_thread_remove_event_hook(loop->thread, raise_at_next_step);
    if (!loop || !may_strike(loop, event, self))
        return;
    nb_timeout_t *timeout = overdue_in(loop, nb_clock_now(), &next_ns);
    if (!timeout || !timeout->traced || masks_itself(timeout))
        return;
    nb_timers_remove(&loop->timers, &timeout->timer);
    timeout->raised = nb_timeout_exception(timeout);
    rb_exc_raise(timeout->raised);
}

/* So the fiber raises by itself, at its next return or loop. Until then it runs slowly, and a loop
 * without lines (`nil while true`) goes unnoticed. */
static void trace(nb_timeout_t *timeout)
{
    if (timeout->traced)
        return;
    timeout->traced = true;
    if (!timeout->loop->traced++)
        rb_thread_add_event_hook(timeout->loop->thread, raise_at_next_step,
                                 RUBY_EVENT_LINE | RUBY_EVENT_CALL | RUBY_EVENT_RETURN |
                                     RUBY_EVENT_C_CALL | RUBY_EVENT_B_CALL | RUBY_EVENT_B_RETURN,
                                 Qnil);
}

void nb_overtime_trace_no_more(nb_loop_t *loop)
{
    if (loop->traced && !--loop->traced)
        rb_thread_remove_event_hook(loop->thread, raise_at_next_step);
}

static VALUE make_exception(VALUE data)
{
    return nb_timeout_exception((const nb_timeout_t *)data);
}

/* An exception from its constructor goes to the block as well: the watching thread must go on. */
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
 *   computed beyond it. For the thread in NB::Overtime. */
static VALUE rb_nb_native_overtime(VALUE mod)
{
    uint64_t wake_ns = overtime.wake_ns;
    overtime.runs = true;
    rb_nogvl(sleep_until_due, &wake_ns, wake_thread, NULL, 0);
    nb_timeout_t *timeout = overdue();
    if (!timeout)
        return Qfalse;
    bool masked = others_mask(timeout);
    if (overdue() != timeout)
        return Qfalse; /* the block has ended while Ruby was asked, and its stack may be gone */
    if (masked) {
        trace(timeout);
        return Qfalse;
    }
    uint64_t deadline_ns = timeout->deadline_ns;
    VALUE exception = exception_for(timeout);
    if (overdue() != timeout || timeout->deadline_ns != deadline_ns)
        return Qfalse; /* the block has ended while the exception was made */
    nb_timers_remove(&timeout->loop->timers, &timeout->timer);
    timeout->raised = exception;
    timeout->interrupted = true;
    timeout->loop->overdue = timeout->loop->current;
    rb_funcall(timeout->loop->thread, rb_intern("raise"), 1, exception);
    return Qtrue;
}

void nb_overtime_init(void (*on_due)(nb_timer_t *timer))
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "overtime", rb_nb_native_overtime, 0);
    overtime.on_due = on_due;
    forget();
    pthread_atfork(NULL, NULL, forget);
}
