/* loop.h - one loop: ready ring, timers, fd table, backend, and the fibers parked in it. Ruby.
 *
 * A loop belongs to one thread and one process. There is no loop fiber: whichever fiber has nothing
 * to do runs nb_loop_turn. Everything here is called with the GVL, and, where not said otherwise,
 * on the loop's own thread.
 *
 * Read after: timers.h, fdtable.h, ready.h. Used by: wait.c, hooks/, server/.
 */
#ifndef NB_LOOP_H
#define NB_LOOP_H

#include "base/ptrmap.h"
#include "loop/fdtable.h"
#include "loop/ready.h"
#include "loop/timers.h"
#include <ruby.h>
#include <stdatomic.h>

/* How often the loop looks at other threads, where nothing tells it of them. */
#define NB_LOOK_NS 100000000
#define NB_EVENTS 256

/* Counters that the loop keeps anyway; NB.stats shows them. */
typedef struct {
    uint64_t switches, turns, sleeps, events, timers_fired, io_waits, sleep_waits, block_waits,
        resolves, offloads, cancels;
    uint64_t lag_max_ns, lag_sum_ns, lag_count; /* how late timers fire */
} nb_counters_t;

/* What there is when another event loop runs this one; see guest.h. */
typedef struct {
    VALUE host;       /* the fiber that runs the other one; 0: there is none */
    nb_watch_t timer; /* of a timerfd */
    uint64_t set_ns;  /* when it is due, or NB_NEVER */
    bool turning;     /* fibers of ours run, by the host's leave */
} nb_guest_t;

typedef struct nb_loop {
    VALUE self, thread; /* the scheduler; its thread, bound at the first hook */
    VALUE current;      /* the fiber that a switch of ours entered last */
    VALUE deferred;     /* Hash fiber -> Array of exceptions for its next waits */
    VALUE overdue;      /* the fiber that Thread#raise is meant for, from hooks/timeout.c; or 0 */
    nb_list_t link;     /* in the list of open loops */
    pid_t pid;
    bool closed;
    struct nb_park *runner; /* who is inside nb_run, usually the thread's root fiber; or NULL */
    size_t run_floor;       /* it wakes when `fibers` has come down to this */
    bool interrupted;       /* the runner shall look at the thread's interrupts */
    atomic_bool asleep;     /* in the kernel without the GVL, or about to be */
    bool signalled;         /* the wake fd was written since the loop fell asleep */
    int wake_fds[2];        /* read and write end; the same eventfd on Linux */
    nb_watch_t wake_watch;
    nb_fdtable_t fds;
    nb_timers_t timers;
    nb_ready_t ready;
    nb_ptrmap_t parked;        /* fiber -> nb_park_t */
    uint64_t now_ns;           /* the clock at the last turn */
    size_t fibers;             /* scheduled, not ended, not idle: what keeps `run` going */
    size_t idle_fibers;        /* inside Scheduler#idle */
    size_t external;           /* something outside is certain to wake a fiber: offloaded work */
    uint64_t suspect_since_ns; /* when only sleeping threads were left to wake a fiber; 0: no */
    unsigned since_poll;       /* switches since the backend was asked */
    unsigned eager;            /* I/O calls that needed no wait since the last switch */
    nb_list_t before_poll;     /* nb_hook_t */
    nb_guest_t guest;
    struct nb_mailbox *mail;                /* finished work of the offload threads */
    nb_list_t names;                        /* host names looked up or cached; hooks/resolve.c */
    void (*forget_names)(struct nb_loop *); /* frees them; NULL before the first */
    int old_timer_slack;
    nb_counters_t counters;
    nb_event_t
        events[NB_EVENTS]; /* here and not on a fiber's stack: it would cost pages per fiber */
    int event_count;
    int64_t poll_timeout_ns;
} nb_loop_t;

/* Called once, before the loop next asks the kernel: to flush what a batch of callbacks collected.
 */
typedef struct nb_hook {
    nb_list_t link;
    void (*call)(struct nb_hook *);
} nb_hook_t;

extern const rb_data_type_t nb_loop_type;
extern VALUE rb_cNBScheduler;

/* The loop of a scheduler object; raises NB::ClosedError, NB::WrongThreadError, NB::ForkedError. */
nb_loop_t *nb_loop_get(VALUE scheduler);
/* The same without the checks of thread and state: for unblock, stats and the like. */
nb_loop_t *nb_loop_any(VALUE scheduler);
/* The loop that runs the current fiber, or NULL (no scheduler, another kind, a blocking fiber). */
nb_loop_t *nb_loop_current(void);

/* One turn: asks the backend, runs what is due. may_sleep: with nothing ready, sleeps in the kernel
 * without the GVL until there is. May raise (interrupts, deadlock). */
void nb_loop_turn(nb_loop_t *loop, bool may_sleep);

/* What has to be done before the loop may sleep. */
void nb_loop_settle(nb_loop_t *loop);

/* Makes a sleeping loop look at its ready ring. Any thread. */
void nb_loop_wakeup(nb_loop_t *loop);

/* What the wake fd's watch calls: drains it, takes in finished offloaded work. */
void nb_loop_on_wake_fd(nb_watch_t *watch, int mask);

/* Timer without a fiber: on_due is called from a turn. Raises NoMemoryError. */
void nb_loop_add_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns);

/* As nb_loop_add_timer, for a timer that may be set already. */
void nb_loop_set_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns);

/* Adds a hook, unless it is added already (link initialised by nb_list_init). */
void nb_loop_before_poll(nb_loop_t *loop, nb_hook_t *hook);

/* The open loops of this process, for the few things that concern all: IO#close, fork. */
extern nb_list_t nb_open_loops;

/* In a forked child: this thread's loop drops what belonged to other fibers and opens a new
 * backend; the loops of threads that did not survive end. */
void nb_loops_after_fork(void);

void Init_nb_loop(VALUE mNB);

#endif
