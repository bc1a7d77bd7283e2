/* loop.c - one turn of the loop. Uses ruby.h. Read after: loop.h, wait.h. */
#include "loop/loop.h"
#include "base/clock.h"
#include "loop/profile.h"
#include "loop/gvl_share.h"
#include "loop/virtual.h"
#include "loop/wait.h"
#include "loop/watchdog.h"
#include <limits.h>
#include <ruby/thread.h>
#include <ruby/version.h>

#define REFUSED INT_MIN /* for event_count: the backend has not been asked */
#define REPEAT_WAKEUPS (RUBY_API_VERSION_CODE < 30300)
#define LOOPBACK_NS 1000000 /* what was written here is there at the latest, as a rule at once */

/* ---- one turn ---------------------------------------------------------------------------- */

static void *ask_backend(void *argument)
{
    nb_loop_t *loop = argument;
    nb_backend_t *backend = &loop->fds.backend;
    if (nb_chaos(NB_CHAOS_EINTR)) {
        loop->event_count = 0;
        return NULL;
    }
    loop->event_count = backend->ops->wait(backend, loop->events, NB_EVENTS, loop->poll_timeout_ns);
    return NULL;
}

static void dispatch(nb_loop_t *loop)
{
    int count = loop->event_count;
    if (count < 0)
        rb_syserr_fail(-count, "nb_loop_turn: wait");
    for (int i = 0; i < count; i++)
        nb_fdtable_dispatch(&loop->fds, &loop->events[i]);
    loop->counters.events += (uint64_t)count;
}

static void call_hooks(nb_loop_t *loop)
{
    while (!nb_list_empty(&loop->next_poll)) {
        nb_list_t *link = loop->next_poll.next;
        nb_list_remove(link);
        nb_list_append(&loop->before_poll, link);
    }
    while (!nb_list_empty(&loop->before_poll)) {
        nb_hook_t *hook = nb_container_of(loop->before_poll.next, nb_hook_t, link);
        nb_list_remove(&hook->link);
        hook->call(hook);
    }
}

static void expire(nb_loop_t *loop)
{
    uint64_t next = nb_timers_next(&loop->timers);
    if (next == NB_NEVER) {
        loop->now_ns = nb_loop_clock(loop);
        return;
    }
    uint64_t now = loop->now_ns = nb_loop_clock(loop);
    if (next > now)
        return;
    uint64_t late = now - next;
    loop->counters.lag_count++;
    loop->counters.lag_sum_ns += late;
    if (late > loop->counters.lag_max_ns)
        loop->counters.lag_max_ns = late;
    loop->counters.timers_fired += nb_timers_expire(&loop->timers, now);
}

/* ---- asleep ---------------------------------------------------------------------------------
 *
 * Here Ruby code runs inside a park, on whichever fiber happens to sleep for all. The rule: what it
 * raises is the runner's, who gets it by an interrupt (nb_loop_look, give_interrupts,
 * raise_deadlock); only where there is none, it is this fiber's. And since others may have run
 * meanwhile, the ready ring and the runner are looked at anew after it. */

/* A bare `sleep` waits for a signal, as it does in a thread. */
static bool sleeps_for_signal(const nb_loop_t *loop)
{
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        for (; park; park = park->outer)
            if (park->kind == NB_PARK_SLEEP && park->for_signal)
                return true;
    }
    return false;
}

/* Nothing is ready, and nothing can make it so: neither inside the loop nor an awaited signal. */
static bool only_threads_help(const nb_loop_t *loop)
{
    return loop->fds.count <= 1 && !loop->timers.count && !loop->external && loop->fibers &&
           !sleeps_for_signal(loop);
}

/* An exception raised on this fiber's stack must show the place that it is meant for. */
static void forget_place(VALUE error)
{
    VALUE lines = rb_funcall(error, rb_intern("backtrace"), 0);
    if (RTEST(rb_equal(lines, rb_make_backtrace())))
        rb_funcall(error, rb_intern("set_backtrace"), 1, Qnil);
}

VALUE nb_loop_look(nb_loop_t *loop, VALUE (*look)(VALUE), VALUE argument)
{
    int tag = 0;
    nb_park_t *runner = loop->runner;
    VALUE value = rb_protect(look, argument, &tag);
    if (!tag)
        return value;
    VALUE error = rb_errinfo();
    if (!runner || runner != loop->runner || runner->fiber == rb_fiber_current() ||
        !nb_is_exception(error))
        rb_jump_tag(tag); /* Thread#kill ends every fiber, whichever is the first */
    rb_set_errinfo(Qnil);
    forget_place(error);
    nb_wake_first(runner, NB_WOKEN); /* before what woke meanwhile ends the wait that it is for */
    nb_interrupt(loop, runner->fiber, error);
    return Qundef;
}

static VALUE threads_asleep(VALUE self)
{
    return rb_funcall(self, rb_intern("threads_asleep"), 0);
}

static uint64_t cpu_time(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * NB_NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t nb_cpu_of_others(void)
{
    return cpu_time(CLOCK_PROCESS_CPUTIME_ID) - cpu_time(CLOCK_THREAD_CPUTIME_ID);
}

/* What threads at work compute at least between two looks; those that only tick stay below. */
#define AT_WORK_NS 1000000

/* Another thread that sleeps forever cannot help, unless it was just killed or woken and has not
 * run yet. So all of them must look asleep for a while, and compute nothing meanwhile: threads that
 * pass mutexes to each other look asleep whenever the loop looks, because it gets the GVL when one
 * has given a mutex away and waits for the next, and the other still looks as if it waited. */
static bool deadlocked(nb_loop_t *loop)
{
    VALUE asleep = nb_loop_look(loop, threads_asleep, loop->self);
    if (asleep == Qundef)
        return false;
    uint64_t cpu_ns = nb_cpu_of_others();
    if (NIL_P(asleep)) {
        loop->suspect_since_ns = 0;
    } else if (!loop->suspect_since_ns || cpu_ns - loop->suspect_cpu_ns > AT_WORK_NS) {
        loop->suspect_since_ns = nb_clock_now();
        loop->suspect_cpu_ns = cpu_ns;
    }
    return asleep == INT2FIX(0) ||
           (!NIL_P(asleep) && nb_clock_now() - loop->suspect_since_ns >= NB_LOOK_NS);
}

static void raise_deadlock(nb_loop_t *loop)
{
    VALUE error = rb_funcall(loop->self, rb_intern("deadlock_error"), 0);
    if (!loop->runner)
        rb_exc_raise(error);
    loop->runner->exception = error;
    nb_wake_first(loop->runner, NB_WOKEN_BY_EXCEPTION);
}

/* Exceptions of signals and Thread#raise belong to the code that called `run`, not to the fiber
 * that happened to sleep for all. */
static void give_interrupts(nb_loop_t *loop)
{
    if (!loop->runner || loop->runner->fiber == rb_fiber_current()) {
        rb_thread_check_ints();
    } else {
        loop->interrupted = true;
        nb_wake_first(loop->runner, NB_WOKEN);
    }
}

/* rb_nogvl does not start while Ruby has pending work on this fiber, such as letting other threads
 * run, so that is done here. repeat: before 3.3, Ruby has no thread that repeats a kill or raise
 * which another thread missed on its way into a blocking call. A sleeping thread does it instead;
 * for a loop, nobody would. */
static VALUE serve_threads(VALUE repeat)
{
    if (repeat)
        rb_thread_wait_for((struct timeval){.tv_usec = 1});
    rb_thread_check_ints();
    return Qnil;
}

static int64_t sleep_limit(void)
{
    return REPEAT_WAKEUPS && !rb_thread_alone() ? NB_LOOK_NS : INT64_MAX;
}

/* Whether Thread#raise has left something that Ruby does not flag: of several that come while a
 * fiber computes, all but the first, once that has been raised. Who raised may have ended. */
static VALUE raises_are_left(VALUE thread)
{
    return rb_funcall(thread, rb_intern("pending_interrupt?"), 0);
}

/* Returns whether it has looked. A mask of Thread.handle_interrupt may hold them back, so it does
 * not look at each turn. */
static bool look_at_raises(nb_loop_t *loop)
{
    uint64_t now = nb_clock_now();
    if (now - loop->looked_ns < NB_LOOK_NS)
        return false;
    loop->looked_ns = now;
    give_interrupts(loop);
    return true;
}

static VALUE threads_may_write(VALUE self)
{
    return rb_funcall(self, rb_intern("threads_may_write?"), 0);
}

static VALUE threads_run(VALUE self)
{
    return rb_funcall(self, rb_intern("threads_run?"), 0);
}

/* How long a virtual clock listens before it jumps to the next timer; -1: it does not jump, because
 * something from outside may come first. That possibility can end unnoticed, so it is checked again
 * after limit: soon, if it is a thread that runs. */
static int64_t before_jump(nb_loop_t *loop, int64_t *limit)
{
    nb_peer_t peer = nb_virtual_awaits(loop);
    if (peer == NB_PEER_HERE && nb_loop_look(loop, threads_may_write, loop->self) == Qfalse)
        return LOOPBACK_NS;
    if (peer == NB_PEER_WAKER) {
        *limit = LOOPBACK_NS;
        return RTEST(nb_loop_look(loop, threads_run, loop->self)) ? -1 : 0;
    }
    return peer == NB_PEER_NONE ? 0 : -1;
}

/* Asks the backend, without the GVL. Returns whether Ruby refused to start. */
static bool ask_asleep(nb_loop_t *loop)
{
    loop->counters.sleeps++;
    loop->signalled = false;
    atomic_store(&loop->asleep, true);
    loop->event_count = REFUSED;
    if (nb_profile_on)
        nb_profile_sleeps(loop);
    rb_nogvl(ask_backend, loop, nb_loop_signal, loop, RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE);
    if (nb_profile_on)
        nb_profile_woke(loop);
    nb_watchdog_awake(loop);
    bool refused = loop->event_count == REFUSED;
    if (refused)
        loop->event_count = 0;
    return refused;
}

static void sleep_in_kernel(nb_loop_t *loop)
{
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, true);
    bool doubtful = !loop->ready.count && only_threads_help(loop);
    bool stuck = doubtful && deadlocked(loop);
    int64_t limit = doubtful || loop->virtual_ns ? NB_LOOK_NS : sleep_limit();
    int64_t moment = loop->virtual_ns && loop->timers.count ? before_jump(loop, &limit) : -1;
    VALUE left = nb_loop_look(loop, raises_are_left, loop->thread);
    if (loop->ready.count)
        return; /* by another thread or a trap handler, while the questions were asked in Ruby */
    if (stuck) {
        raise_deadlock(loop);
        return;
    }
    if (RTEST(left)) {
        if (look_at_raises(loop))
            return;
        limit = NB_LOOK_NS;
    }
    uint64_t next = nb_timers_next(&loop->timers), now = nb_loop_clock(loop);
    loop->poll_timeout_ns = next == NB_NEVER ? -1 : next > now ? (int64_t)(next - now) : 0;
    if (moment >= 0)
        loop->poll_timeout_ns = moment;
    bool shortened = loop->poll_timeout_ns < 0 ? limit != INT64_MAX : loop->poll_timeout_ns > limit;
    if (shortened)
        loop->poll_timeout_ns = limit;
    uint64_t since_ns = loop->virtual_ns ? nb_clock_now() : 0;
    bool refused = ask_asleep(loop);
    bool repeat = REPEAT_WAKEUPS && shortened && !loop->event_count;
    if (loop->virtual_ns && moment < 0)
        nb_virtual_pass(loop, since_ns);
    loop->now_ns = nb_loop_clock(loop); /* what came begins now, not when we fell asleep */
    nb_gvl_share_anew(loop, loop->now_ns);
    dispatch(loop);
    if (moment >= 0 && !refused && !loop->event_count && !loop->ready.count)
        nb_virtual_jump(loop);
    expire(loop);
    if (rb_thread_interrupted(loop->thread))
        give_interrupts(loop);
    else if (refused || repeat)
        nb_loop_look(loop, serve_threads, (VALUE)repeat);
}

static bool may_rest(const nb_loop_t *loop)
{
    return !loop->ready.count && nb_list_empty(&loop->before_poll) &&
           nb_list_empty(&loop->next_poll);
}

/* The next time it is another one's turn. Nothing of it is looked at after the call, in which it
 * may have been taken out. */
static void call_at_rest(nb_loop_t *loop)
{
    nb_list_t *link = loop->at_rest.next;
    nb_list_remove(link);
    nb_list_append(&loop->at_rest, link);
    nb_hook_t *hook = nb_container_of(link, nb_hook_t, link);
    hook->call(hook);
}

void nb_loop_turn(nb_loop_t *loop, bool may_sleep)
{
    loop->since_poll = loop->steps = 0;
    loop->counters.turns++;
    call_hooks(loop);
    expire(loop);
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, false);
    loop->poll_timeout_ns = 0;
    ask_backend(loop);
    dispatch(loop);
    if (may_sleep && may_rest(loop) && !nb_list_empty(&loop->at_rest))
        call_at_rest(loop);
    if (may_sleep && may_rest(loop))
        sleep_in_kernel(loop);
    if (loop->ready.count)
        loop->suspect_since_ns = 0;
}

void nb_loop_settle(nb_loop_t *loop)
{
    call_hooks(loop);
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, true);
    if (loop->fds.backend.ops->flush)
        loop->fds.backend.ops->flush(&loop->fds.backend);
}

void nb_loop_before_poll(nb_loop_t *loop, nb_hook_t *hook)
{
    if (nb_list_empty(&hook->link))
        nb_list_append(&loop->before_poll, &hook->link);
}

void nb_loop_before_next_poll(nb_loop_t *loop, nb_hook_t *hook)
{
    if (nb_list_empty(&hook->link))
        nb_list_append(&loop->next_poll, &hook->link);
}

void nb_loop_at_rest(nb_loop_t *loop, nb_hook_t *hook)
{
    if (nb_list_empty(&hook->link))
        nb_list_append(&loop->at_rest, &hook->link);
}

void nb_loop_add_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns)
{
    timer->when_ns = when_ns;
    if (nb_timers_add(&loop->timers, timer) < 0)
        rb_memerror();
}

void nb_loop_set_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns)
{
    nb_timers_remove(&loop->timers, timer);
    nb_loop_add_timer(loop, timer, when_ns);
}
