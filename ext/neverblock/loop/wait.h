/* wait.h - parking and waking fibers: the only place where a fiber stops or goes on. Ruby.
 *
 * A park lies on the waiting fiber's C stack. Who parks cleans up; a park is woken once.
 *
 *     nb_park_t park;
 *     nb_park_init(loop, &park, NB_PARK_SLEEP);
 *     nb_park_deadline(&park, nb_clock_now() + ns);
 *     if (nb_park(&park) == NB_WOKEN_BY_TIMER) ...
 *
 * Read after: loop.h. Used by: hooks/, server/.
 */
#ifndef NB_WAIT_H
#define NB_WAIT_H

#include "loop/loop.h"

typedef enum {
    NB_PARK_IO,
    NB_PARK_SELECT,
    NB_PARK_SLEEP,
    NB_PARK_BLOCK,
    NB_PARK_PROCESS,
    NB_PARK_RESOLVE,
    NB_PARK_OFFLOAD,
    NB_PARK_YIELD,
    NB_PARK_HANDOFF,
    NB_PARK_ROOT,
    NB_PARK_START,
    NB_PARK_IDLE,
} nb_park_kind_t;

typedef enum {
    NB_NOT_WOKEN = 0,
    NB_WOKEN_BY_TIMER,
    NB_WOKEN,
    NB_WOKEN_BY_EXCEPTION,
} nb_reason_t;

typedef enum { NB_PARKED, NB_READY, NB_RUNNING } nb_park_state_t;

struct nb_park;

/* A watch that wakes a park and notes in it which events did. */
typedef struct {
    nb_watch_t watch;
    struct nb_park *park;
} nb_park_watch_t;

typedef struct nb_park {
    nb_loop_t *loop;
    VALUE fiber;     /* who waits */
    VALUE owner;     /* the scheduled fiber it runs in: differs for fibers resumed by that one */
    VALUE blocker;   /* what is waited for, as the hook was told; 0 when nothing */
    VALUE exception; /* to raise when it goes on; Qundef for none */
    VALUE first;     /* the fiber to enter first; 0 for none */
    void (*raise)(void *);   /* called when it goes on, to raise: an expired timeout_after */
    void (*put_off)(void *); /* called instead when it was unblocked before it could raise */
    void *raise_data;
    nb_timer_t timer;
    uint64_t since_ns;
    size_t ready_place;
    nb_park_watch_t *watches; /* taken out of the fd table when the park ends */
    int watch_count;
    int mask; /* events that woke it */
    uint8_t kind, state, reason;
} nb_park_t;

/* Fills the park for the current fiber. Does not link it anywhere. */
void nb_park_init(nb_loop_t *loop, nb_park_t *park, nb_park_kind_t kind);

/* Fills a watch that wakes park; nb_fdtable_add is the caller's. */
void nb_park_watch_init(nb_park_watch_t *watch, nb_park_t *park, int fd, int mask);

/* The park wakes by itself at when_ns; NB_NEVER: it does not. Before nb_park. */
void nb_park_deadline(nb_park_t *park, uint64_t when_ns);

/* Stops the current fiber until the park is woken. Raises what another gave it. */
nb_reason_t nb_park(nb_park_t *park);

/* Makes the park ready; the first reason counts, except that a wake beats a timeout. */
void nb_wake(nb_park_t *park, nb_reason_t reason);

/* As nb_wake, but it runs next. */
void nb_wake_first(nb_park_t *park, nb_reason_t reason);

/* Raises exception in fiber when it runs next, wherever it waits, at the latest at its next wait.
 * Any thread. */
void nb_interrupt(nb_loop_t *loop, VALUE fiber, VALUE exception);

/* Whether an exception will come out of this wait already. */
bool nb_park_raises(const nb_park_t *park);

/* Whether one may still be given to it. */
bool nb_park_may_raise(const nb_park_t *park);

/* Wakes a park in block or sleep; what was to be raised in it comes at its next wait. */
void nb_unblock(nb_park_t *park);

/* The park of a fiber, or of a fiber that it resumed; NULL when neither waits. */
nb_park_t *nb_park_of(nb_loop_t *loop, VALUE fiber);

/* Raises what Thread#raise has left for this thread, whatever Thread.handle_interrupt holds back:
 * it is for the fiber that runs, and would strike another after the next switch. For rb_protect:
 * returns data. */
VALUE nb_take_interrupts(VALUE data);

/* Lets the others run, then goes on. */
void nb_yield(nb_loop_t *loop);

/* Called by hooks that did not wait: now and then lets others run, so that a fiber whose I/O is
 * always ready does not starve the rest. */
#define NB_EAGER_LIMIT 64
static inline void nb_eager(nb_loop_t *loop)
{
    if (++loop->eager >= NB_EAGER_LIMIT)
        nb_yield(loop);
}

/* Makes a fiber that has not run yet ready. For code that may not switch, such as on_ready. */
void nb_start(nb_loop_t *loop, VALUE fiber);

/* Runs other fibers until none but the caller keeps the loop going. */
void nb_run(nb_loop_t *loop);

/* Calls body, which may transfer to a parked fiber by Ruby's own means (Fiber#raise); the caller is
 * first in the queue and so goes on when that one waits or ends. */
VALUE nb_hand_over(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument);

/* A fiber that kept the loop going ended or rests; the last one wakes the runner. */
void nb_fiber_left(nb_loop_t *loop);

/* Runs fiber (new) at once; comes back when it first waits or ends. */
void nb_enter(nb_loop_t *loop, VALUE fiber);

/* A timeout argument of a hook: nil -> NB_NEVER, seconds -> a deadline from now.
 * Raises TypeError and ArgumentError as Ruby does. The one place where seconds become nanoseconds.
 */
uint64_t nb_deadline(VALUE timeout);

#endif
