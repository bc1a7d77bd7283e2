/* wait.h - parking and waking fibers: the only place where a fiber stops or continues. Uses ruby.h.
 *
 * A park lies on the waiting fiber's C stack. Whoever parks cleans up. A park is woken once.
 *
 *     nb_park_t park;
 *     nb_park_init(loop, &park, NB_PARK_SLEEP);
 *     nb_park_deadline(&park, nb_loop_clock(loop) + ns);
 *     if (nb_park(&park) == NB_WOKEN_BY_TIMER) ...
 *
 * Read after: loop.h.
 */
#ifndef NB_WAIT_H
#define NB_WAIT_H

#include "base/clock.h"
#include "loop/chaos.h"
#include "loop/loop.h"

typedef enum {
    NB_PARK_IO,
    NB_PARK_SELECT,
    NB_PARK_SLEEP,
    NB_PARK_BLOCK,
    NB_PARK_PROCESS,
    NB_PARK_RESOLVE,
    NB_PARK_OFFLOAD,
    NB_PARK_YIELD, /* from here on they are ready, or nobody's own wait */
    NB_PARK_HANDOFF,
    NB_PARK_ROOT,
    NB_PARK_START,
    NB_PARK_IDLE,
    NB_PARK_SPAWN,
} nb_park_kind_t;

typedef enum {
    NB_NOT_WOKEN = 0,
    NB_WOKEN_BY_TIMER,
    NB_WOKEN,
    NB_WOKEN_BY_EXCEPTION,
} nb_reason_t;

typedef enum { NB_PARKED, NB_READY, NB_RUNNING } nb_park_state_t;

struct nb_park;

/* A watch that wakes a park, and records in it which events did. */
typedef struct {
    nb_watch_t watch;
    struct nb_park *park;
} nb_park_watch_t;

typedef struct nb_park {
    nb_loop_t *loop;
    VALUE fiber;             /* who waits */
    VALUE owner;             /* the scheduled fiber that it runs in, if that one resumed it */
    VALUE blocker;           /* what it waits for, as the hook was told; 0: nothing */
    VALUE exception;         /* to raise when it continues; Qundef: none */
    VALUE first;             /* the fiber to enter first; 0: none */
    VALUE status;            /* $?, which others may change meanwhile */
    struct nb_park *outer;   /* what its fiber waited for already: this one is of a trap handler, a
                                finalizer or the like, which Ruby runs on a waiting fiber's stack */
    void (*raise)(void *);   /* called when it continues, to raise: an expired timeout_after */
    void (*put_off)(void *); /* called instead if it was unblocked before it could raise */
    void *raise_data;
    struct nb_seen *seen; /* of profile.h, while a profile notes this wait; or NULL */
    nb_timer_t timer;
    uint64_t since_ns;
    size_t ready_place;
    nb_park_watch_t *watches; /* taken out of the fd table when the park ends */
    int watch_count;
    int mask; /* events that came for its watches */
    uint8_t kind, state, reason;
    bool linked;      /* nb_park_of finds it */
    bool handed_over; /* its fiber is in nb_hand_over */
    bool unwinds;     /* where the loop ends: in an `ensure` or `rescue`, which it lets finish */
    bool for_signal;  /* a bare `sleep`: a signal ends it, and nothing else need do so */
} nb_park_t;

/* Fills the park for the current fiber, without linking it anywhere. */
void nb_park_init(nb_loop_t *loop, nb_park_t *park, nb_park_kind_t kind);

/* Fills a watch that wakes park; the caller calls nb_fdtable_add. */
void nb_park_watch_init(nb_park_watch_t *watch, nb_park_t *park, int fd, int mask);

/* Makes the park wake by itself at when_ns; NB_NEVER: it does not. Call before nb_park. */
void nb_park_deadline(nb_park_t *park, uint64_t when_ns);

/* Stops the current fiber until the park is woken. Raises the exception that others gave it. */
nb_reason_t nb_park(nb_park_t *park);

/* The same, in the form that rb_protect needs. */
static inline VALUE nb_park_value(VALUE park)
{
    return (VALUE)nb_park((nb_park_t *)park);
}

/* Makes the park ready. The first reason counts, except that a wake beats a timeout. */
void nb_wake(nb_park_t *park, nb_reason_t reason);

/* The same as nb_wake, but it runs next. */
void nb_wake_first(nb_park_t *park, nb_reason_t reason);

/* Raises exception in fiber when it runs next, wherever it waits, at the latest at its next wait.
 * A shield (shield.h) holds it back. Any thread. */
void nb_interrupt(nb_loop_t *loop, VALUE fiber, VALUE exception);

/* The same for what began inside of so many shields, which do not hold it back. */
void nb_interrupt_at(nb_loop_t *loop, VALUE fiber, VALUE exception, unsigned depth);

/* Forgets what was to be raised in the current fiber at its next wait: the work it was meant for
 * has ended, and a pooled fiber continues with other work. */
void nb_forget_interrupts(nb_loop_t *loop);

/* Raises what these have given a fiber, in it: an exception, or the [tag, value] of a throw. */
NORETURN(void nb_raise(VALUE given));

/* Keeps an exception for a fiber's next wait. Several are kept in order; none replaces another. */
void nb_defer(nb_loop_t *loop, VALUE fiber, VALUE exception);

/* Takes the first one out again; nil if there is none. */
VALUE nb_take_deferred(nb_loop_t *loop, VALUE fiber);

/* Whether rb_protect caught an exception. Thread#kill leaves a number, and throw an internal object
 * of Ruby that has no class. */
bool nb_is_exception(VALUE caught);

/* Whether this wait will already raise an exception. */
static inline bool nb_park_raises(const nb_park_t *park)
{
    return park->raise || park->exception != Qundef;
}

/* Whether it can still be given one. */
bool nb_park_may_raise(const nb_park_t *park);

/* Moves what was to be raised in a park to its fiber's next wait. */
void nb_put_off(nb_park_t *park);

/* Wakes a park in block or sleep. What was to be raised in it is raised at its next wait, unless it
 * waits for a thread's end. */
void nb_unblock(nb_park_t *park);

/* The innermost park of a fiber, or of the last one of those that it and then others resumed; NULL
 * when neither waits. */
nb_park_t *nb_park_of(nb_loop_t *loop, VALUE fiber);

/* Raises what Thread#raise has left for this thread, whatever Thread.handle_interrupt holds back:
 * it is meant for the running fiber, and would strike another after the next switch. For
 * rb_protect: returns data. */
VALUE nb_take_interrupts(VALUE data);

/* Lets the other fibers run, then continues. */
void nb_yield(nb_loop_t *loop);

/* Whether the current fiber may do so. A trap handler or finalizer may run on a fiber that waits,
 * and that one lets nobody run. */
bool nb_may_yield(nb_loop_t *loop);

/* Called before a fiber starts another one: lets the others run if it has started many and has not
 * done so for a slice. A fiber that starts a few can rely on running alone. Nothing is raised here,
 * but at the next wait: the caller may hold what is meant for the new fiber, such as an accepted
 * socket. */
void nb_before_start(nb_loop_t *loop);

#define NB_POLL_EVERY 64    /* switches between two looks at the backend while fibers are ready */
#define NB_SLICE_NS 1000000 /* or this long: fibers that compute between their waits */
#define NB_EAGER_LIMIT 64
#define NB_MANY_STARTS 16 /* fibers started in one turn */

/* Whether it is time to ask the backend, at one more step: a switch, or a call that needed no wait.
 * Not every step reads the clock, which is a system call on some machines: the 1st, 2nd, 4th and
 * every 6th do, in whichever fiber. */
static inline bool nb_slice_is_over(nb_loop_t *loop)
{
    unsigned steps = ++loop->steps;
    bool look = steps % 6 == 0 || (steps < 6 && !(steps & (steps - 1)));
    return look && nb_loop_clock(loop) - loop->now_ns >= NB_SLICE_NS;
}

/* Called by hooks that did not wait. Now and then lets others run, so a fiber whose I/O is always
 * ready does not starve the rest. Most such fibers have to wait after one or two calls; if they
 * compute meanwhile, that is noticed when they wait. */
static inline void nb_eager(nb_loop_t *loop)
{
    nb_chaos_step(loop);
    bool late = ++loop->eager > 1 && nb_slice_is_over(loop);
    if (late)
        loop->since_poll = NB_POLL_EVERY;
    if (late || loop->eager >= NB_EAGER_LIMIT)
        nb_yield(loop);
}

/* Makes a fiber that has not run yet ready. For code that may not switch, such as on_ready. The
 * fiber must first call nb_started. If there is no room for its stack, failed is called instead,
 * and returns whether to try once more. */
typedef bool (*nb_start_failed_t)(nb_loop_t *loop, VALUE argument, VALUE error);
void nb_start(nb_loop_t *loop, VALUE fiber, nb_start_failed_t failed, VALUE argument);
void nb_started(nb_loop_t *loop);

/* Runs other fibers until only the caller keeps the loop running. */
void nb_run(nb_loop_t *loop);

/* Calls body, which may transfer to a parked fiber by Ruby's own means (Fiber#raise). The caller is
 * first in the queue, so it continues when that fiber waits or ends. */
VALUE nb_hand_over(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument);

/* A fiber that kept the loop running has ended or rests; the last one wakes the runner. */
void nb_fiber_left(nb_loop_t *loop);

/* Runs fiber (new) at once; returns when it first waits or ends. */
void nb_enter(nb_loop_t *loop, VALUE fiber);

/* Runs the ready park's fiber at once; the caller continues when that fiber waits or ends. */
void nb_give_way(nb_park_t *park);

/* Converts a hook's timeout argument: nil -> NB_NEVER, seconds -> nanoseconds, 0 for less than
 * none. Raises TypeError and ArgumentError as Ruby does. The only place where one becomes the
 * other. */
uint64_t nb_interval_ns(VALUE timeout);

/* The same as a deadline from now. */
uint64_t nb_deadline(nb_loop_t *loop, VALUE timeout);

#endif
