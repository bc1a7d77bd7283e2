/* loop.c - one turn of the loop. Ruby. Read after: loop.h, wait.h. */
#include "loop/loop.h"
#include "base/clock.h"
#include "loop/wait.h"
#include "offload/pool.h"
#include <errno.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#include <unistd.h>

/* ---- one turn ---------------------------------------------------------------------------- */

static void *ask_backend(void *argument)
{
    nb_loop_t *loop = argument;
    nb_backend_t *backend = &loop->fds.backend;
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
        loop->now_ns = nb_clock_now();
        return;
    }
    uint64_t now = loop->now_ns = nb_clock_now();
    if (next > now)
        return;
    uint64_t late = now - next;
    loop->counters.lag_count++;
    loop->counters.lag_sum_ns += late;
    if (late > loop->counters.lag_max_ns)
        loop->counters.lag_max_ns = late;
    loop->counters.timers_fired += nb_timers_expire(&loop->timers, now);
}

static void wake_fd_write(void *argument)
{
    nb_loop_t *loop = argument;
    uint64_t one = 1;
    ssize_t written = write(loop->wake_fds[1], &one, sizeof(one));
    (void)written; /* full means already signalled */
}

void nb_loop_wakeup(nb_loop_t *loop)
{
    if (atomic_load_explicit(&loop->asleep, memory_order_relaxed) && !loop->signalled) {
        loop->signalled = true;
        int saved = errno; /* unblock is called where the caller still looks at errno */
        wake_fd_write(loop);
        errno = saved;
    }
}

void nb_loop_on_wake_fd(nb_watch_t *watch, int mask)
{
    nb_loop_t *loop = nb_container_of(watch, nb_loop_t, wake_watch);
    uint64_t drained;
    while (read(loop->wake_fds[0], &drained, sizeof(drained)) > 0 &&
           loop->wake_fds[0] != loop->wake_fds[1])
        ;
    (void)mask;
    nb_mailbox_collect(loop->mail);
}

/* A bare `sleep` waits for a signal, as it does in a thread. */
static bool sleeps_for_signal(const nb_loop_t *loop)
{
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].key ? loop->parked.slots[i].value : NULL;
        if (park && park->kind == NB_PARK_SLEEP && park->mask)
            return true;
    }
    return false;
}

/* Nothing is ready, and nothing inside the loop nor a signal that is waited for can make it so. */
static bool only_threads_help(const nb_loop_t *loop)
{
    return loop->fds.count <= 1 && !loop->timers.count && !loop->external && loop->fibers &&
           !sleeps_for_signal(loop);
}

/* Another thread that sleeps for ever cannot help, unless it was just killed or woken and has not
 * run yet: so they must look asleep for a while. */
static bool deadlocked(nb_loop_t *loop)
{
    VALUE asleep = rb_funcall(loop->self, rb_intern("threads_asleep"), 0);
    if (NIL_P(asleep))
        loop->suspect_since_ns = 0;
    else if (!loop->suspect_since_ns)
        loop->suspect_since_ns = nb_clock_now();
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

/* Exceptions of signals and Thread#raise belong to the code that called `run`, not to whichever
 * fiber happened to sleep for all. */
static void give_interrupts(nb_loop_t *loop)
{
    if (!loop->runner || loop->runner->fiber == rb_fiber_current()) {
        rb_thread_check_ints();
    } else {
        loop->interrupted = true;
        nb_wake_first(loop->runner, NB_WOKEN);
    }
}

/* Before 3.3 Ruby has no thread that repeats a kill or raise which another thread missed on its way
 * into a blocking call: whoever sleeps does that, and for a loop nobody would. */
static void repeat_missed_wakeups(nb_loop_t *loop)
{
#if RUBY_API_VERSION_CODE < 30300
    if (!loop->event_count)
        rb_thread_wait_for((struct timeval){.tv_usec = 1});
#endif
}

static int64_t sleep_limit(void)
{
#if RUBY_API_VERSION_CODE < 30300
    if (!rb_thread_alone())
        return NB_LOOK_NS;
#endif
    return INT64_MAX;
}

static void sleep_in_kernel(nb_loop_t *loop)
{
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, true);
    bool doubtful = !loop->ready.count && only_threads_help(loop);
    bool stuck = doubtful && deadlocked(loop);
    if (loop->ready.count)
        return; /* perhaps by another thread, while the question was asked in Ruby */
    if (stuck) {
        raise_deadlock(loop);
        return;
    }
    uint64_t next = nb_timers_next(&loop->timers), now = nb_clock_now();
    int64_t limit = doubtful ? NB_LOOK_NS : sleep_limit();
    loop->poll_timeout_ns = next == NB_NEVER ? -1 : next > now ? (int64_t)(next - now) : 0;
    bool shortened = loop->poll_timeout_ns < 0 ? limit != INT64_MAX : loop->poll_timeout_ns > limit;
    if (shortened)
        loop->poll_timeout_ns = limit;
    loop->counters.sleeps++;
    loop->signalled = false;
    atomic_store(&loop->asleep, true);
    loop->event_count = 0; /* rb_nogvl may refuse to begin */
    rb_nogvl(ask_backend, loop, wake_fd_write, loop, RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE);
    atomic_store(&loop->asleep, false);
    if (shortened)
        repeat_missed_wakeups(loop);
    loop->now_ns = nb_clock_now(); /* what came begins now, not when we fell asleep */
    dispatch(loop);
    expire(loop);
    if (rb_thread_interrupted(loop->thread))
        give_interrupts(loop);
    else
        /* rb_nogvl also refuses when our time slice is over and other threads wait for the GVL;
         * only this gives it to them. */
        rb_thread_check_ints();
}

void nb_loop_turn(nb_loop_t *loop, bool may_sleep)
{
    loop->since_poll = 0;
    loop->counters.turns++;
    call_hooks(loop);
    expire(loop);
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, false);
    loop->poll_timeout_ns = 0;
    ask_backend(loop);
    dispatch(loop);
    if (may_sleep && !loop->ready.count && nb_list_empty(&loop->before_poll))
        sleep_in_kernel(loop);
    if (loop->ready.count)
        loop->suspect_since_ns = 0;
}

void nb_loop_settle(nb_loop_t *loop)
{
    call_hooks(loop);
    if (loop->fds.backend.ops->edge)
        nb_fdtable_verify(&loop->fds, true);
}

void nb_loop_before_poll(nb_loop_t *loop, nb_hook_t *hook)
{
    if (nb_list_empty(&hook->link))
        nb_list_append(&loop->before_poll, &hook->link);
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
