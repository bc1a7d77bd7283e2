/* loop.h - one loop: ready ring, timers, fd table, backend and parked fibers. Uses ruby.h.
 *
 * A loop belongs to one thread and one process. There is no loop fiber: whichever fiber has nothing
 * to do runs nb_loop_turn. All functions are called with the GVL and, unless stated otherwise, on
 * the loop's own thread.
 *
 * The files of this room, each of which uses those before it:
 *
 *   timers · fdtable · chaos                        lists and tables
 *   resume_chain · wake · shield · suspended_timer  who is ready
 *   stacks · sampler · subject · profile            where time goes
 *   stall · stall_counts                            stalls of a loop
 *   peer · virtual                                  a clock for tests
 *   interrupt · loop · gvl_share                    exceptions for a fiber; a turn of the loop
 *   transferred · last_status · wait                parking
 *   yield · run                                     letting others run; waiting for all
 *   gvl · place · probe · incident · watchdog       reports on stalls
 *   life · guest                                    creating and freeing; other event loops
 *   fork_mutexes · fork · blocking                  a child; calls that did not ask the loop
 *
 * Read after: timers.h, fdtable.h, ready.h, stall.h.
 */
#ifndef NB_LOOP_H
#define NB_LOOP_H

#include "base/clock.h"
#include "base/ptrmap.h"
#include "loop/fdtable.h"
#include "loop/ready.h"
#include "loop/stall.h"
#include "loop/timers.h"
#include <pthread.h>
#include <ruby.h>
#include <stdatomic.h>

/* How often the loop looks at other threads if nothing tells it about them. */
#define NB_LOOK_NS 100000000
#define NB_EVENTS 256

/* Counters that the loop keeps anyway; NB.stats shows them. */
typedef struct {
    uint64_t switches, turns, sleeps, events, timers_fired, io_waits, sleep_waits, block_waits,
        resolves, offloads, cancels;
    uint64_t lag_max_ns, lag_sum_ns, lag_count; /* how late timers fire */
} nb_counters_t;

struct nb_loop;

/* Set when another event loop runs this one; see guest.h. */
typedef struct {
    VALUE host;      /* the fiber that runs the host loop; 0: there is no host */
    uint64_t set_ns; /* when the backend's alarm is due, or NB_NEVER */
    bool turning;    /* our fibers run while the host waits */
    /* Of guest.c, for those below it; set while there is a host. */
    void (*rest)(struct nb_loop *);  /* the host's fiber goes on */
    void (*leave)(struct nb_loop *); /* the loop closes */
} nb_guest_t;

/* Called once: before the loop next asks the kernel, to flush what a batch of callbacks collected;
 * or in a forked child, to release what the parent has in the loop. */
typedef struct nb_hook {
    nb_list_t link;
    void (*call)(struct nb_hook *);
} nb_hook_t;

/* What watchdog.c knows about a loop; under its lock. */
typedef struct {
    nb_list_t link;
    pthread_t thread;
    pid_t tid;
    clockid_t cpu_clock;
    const atomic_bool *wants_gvl;
    uint64_t seen;            /* its progress when last checked */
    uint64_t since_ns;        /* since when it makes no progress */
    uint64_t begun_ns;        /* when this was noted, if begun: */
    uint64_t cpu_ns;          /* what its thread had computed */
    nb_scheduled_t scheduled; /* and how it had waited for a core */
    uint64_t late_ns;         /* how long it did not run, as the watchdog saw */
    bool begun;
    bool slept;                   /* at the last look it was asleep, */
    bool rests;                   /* and since the one before it */
    struct nb_incident *incident; /* of watchdog.c, while it has stood for the limit; or NULL */
} nb_watched_t;

typedef struct nb_loop {
    VALUE self, thread;   /* the scheduler; its thread, bound at the first hook */
    VALUE leader;         /* the fiber of NB.run's block, which is the thread's own code; or nil */
    VALUE current;        /* the fiber that a switch of ours entered last */
    VALUE starting;       /* the fiber that is being entered for the first time; or 0 */
    VALUE deferred;       /* Hash fiber -> Array of exceptions for its next waits */
    VALUE early_unblocks; /* Hash fiber -> Array of blockers; hooks/early_unblock.h */
    VALUE overdue;        /* in which Thread#raise is to strike, from hooks/overtime.c; or 0 */
    VALUE rescued;        /* $! when the process was forked; of a forked child only */
    const VALUE *value_frame; /* while it closes: where Ruby has the thread's value; or NULL */
    nb_list_t link;           /* in the list of open loops */
    pid_t pid;
    bool closed;
    bool forked;            /* in this process, a child: it has only the fiber that forked */
    struct nb_park *runner; /* who is inside nb_run, usually the thread's root fiber; or NULL */
    bool interrupted;       /* the runner must check the thread's interrupts */
    atomic_bool asleep;     /* in the kernel without the GVL, or about to be */
    bool ends;              /* its fibers have been told to end */
    bool signalled;         /* the wake fd was written since the loop fell asleep */
    unsigned clears_status; /* calls of Process.wait that clear $?; loop/last_status.h */
    int wake_fds[2];        /* read and write end; the same eventfd on Linux */
    nb_watch_t wake_watch;
    nb_fdtable_t fds;
    nb_timers_t timers;
    nb_ready_t ready;
    nb_ptrmap_t parked;       /* fiber -> nb_park_t */
    nb_ptrmap_t shields;      /* fiber -> the innermost shield that it is in */
    nb_ptrmap_t transferred;  /* fiber that has left by Fiber#transfer -> loop/transferred.c */
    nb_ptrmap_t leads;        /* fiber of the loop -> the first of these that left in it */
    nb_ptrmap_t mutex_sleeps; /* fiber in Mutex#sleep that does not wait yet -> the mutex */
    nb_ptrmap_t idle;         /* fiber inside Scheduler#idle -> how deep; marked */
    uint64_t now_ns;          /* the clock at the last turn */
    uint64_t turn_ns;         /* the same when the running fiber's turn began; fibers that it starts
                                 belong to its turn until they wait */
    uint64_t gvl_since_ns;    /* when other threads had had the GVL, as far as gvl_share.c knows */
    uint64_t gvl_share_ns;    /* how long the loop then keeps it at least */
    long gvl_sleeps;          /* how often its thread had slept until then */
    uint64_t virtual_ns;      /* of a loop whose time is not real, loop/virtual.h; else 0 */
    size_t fibers;            /* scheduled, not ended, not idle: what keeps `run` going */
    size_t idle_fibers;       /* inside Scheduler#idle */
    size_t traced;            /* timeouts that hooks/overtime.c looks for at each step */
    size_t traced_calls;      /* calls in C since the last line */
    size_t suspended_timers;  /* deadlines that passed while their fiber was suspended */
    void (*mark_timeouts)(struct nb_loop *); /* the fibers of hooks/timeout.c; NULL before one */
    size_t external;           /* offloaded work and the like, which will certainly wake a fiber */
    uint64_t suspect_since_ns; /* when only sleeping threads were left to wake a fiber; 0: no */
    uint64_t looked_ns;        /* when it last looked at what Thread#raise has left; 0: never */
    uint64_t suspect_cpu_ns;   /* what all other threads had computed then */
    unsigned since_poll;       /* switches since the backend was asked */
    unsigned starts;           /* fibers started in this turn */
    unsigned steps;            /* starts, and calls that needed no wait: some read the clock */
    unsigned eager;            /* I/O calls that needed no wait since the last switch */
    nb_list_t before_poll;     /* nb_hook_t */
    nb_list_t next_poll;       /* the same, for the one after the next */
    nb_list_t at_rest;         /* the same, called each time that the loop is about to sleep */
    struct nb_fork_mutexes *fork_mutexes; /* while a forked child releases them; else NULL */
    void (*unlock)(struct nb_loop *, VALUE error); /* what they do when entered; or NULL */
    VALUE never_freed; /* Array of fibers that a mutex points to; or 0 */
    nb_list_t on_fork; /* nb_hook_t, called in a forked child */
    nb_guest_t guest;
    nb_watched_t watched;
    struct nb_mailbox *mail;                /* finished work of other threads */
    nb_list_t names;                        /* host names looked up or cached; hooks/resolve.c */
    void (*forget_names)(struct nb_loop *); /* frees them; NULL before the first */
    int old_timer_slack;
    nb_counters_t counters;
    nb_event_t
        events[NB_EVENTS]; /* not on the stacks of fibers, where they would cost pages for each */
    int event_count;
    int64_t poll_timeout_ns;
} nb_loop_t;

extern const rb_data_type_t nb_loop_type;
extern VALUE rb_cNBScheduler;

/* rb_typeddata_is_kind_of without the call, because every hook asks. */
static inline bool nb_is_loop(VALUE object)
{
    return RB_TYPE_P(object, T_DATA) && RTYPEDDATA_P(object) &&
           RTYPEDDATA_TYPE(object) == &nb_loop_type;
}

/* The loop of a scheduler object; raises NB::ClosedError, NB::WrongThreadError, NB::ForkedError. */
nb_loop_t *nb_loop_get(VALUE scheduler);
/* The same without the checks of thread and state: for unblock, stats and the like. */
nb_loop_t *nb_loop_any(VALUE scheduler);
/* The loop that runs the current fiber, or NULL (no scheduler, another kind, a blocking fiber). */
nb_loop_t *nb_loop_current(void);

/* The loop's time, in nanoseconds, by which its timers go. Each reading of a virtual clock takes a
 * nanosecond, so of equal waits the one that began first ends first. */
static inline uint64_t nb_loop_clock(nb_loop_t *loop)
{
    return loop->virtual_ns ? ++loop->virtual_ns : nb_clock_now();
}

/* One turn: asks the backend and runs what is due. may_sleep: if nothing is ready, sleeps in the
 * kernel without the GVL until something is. May raise (interrupts, deadlock). */
void nb_loop_turn(nb_loop_t *loop, bool may_sleep);

/* What must be done before the loop may sleep. */
void nb_loop_settle(nb_loop_t *loop);

/* Makes a sleeping loop look at its ready ring. Any thread. */
void nb_loop_wakeup(nb_loop_t *loop);

/* Writes the wake fd. Any thread, without the GVL. argument: the loop. */
void nb_loop_signal(void *argument);

/* The callback of the wake fd's watch: drains it, and takes in finished offloaded work. */
void nb_loop_on_wake_fd(nb_watch_t *watch, int mask);

/* The CPU time of all threads but this one, in nanoseconds. */
uint64_t nb_cpu_of_others(void);

/* A timer without a fiber: a turn calls on_due. Raises NoMemoryError. */
void nb_loop_add_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns);

/* The same as nb_loop_add_timer, for a timer that may already be set. */
void nb_loop_set_timer(nb_loop_t *loop, nb_timer_t *timer, uint64_t when_ns);

/* Adds a hook, unless it is already added (link initialized by nb_list_init). */
void nb_loop_before_poll(nb_loop_t *loop, nb_hook_t *hook);

/* The same as nb_loop_before_poll, called from such a hook: for the next turn, not for this one. */
void nb_loop_before_next_poll(nb_loop_t *loop, nb_hook_t *hook);

/* Has the hook called whenever nothing is ready and the loop is about to sleep, until it is taken
 * out of its list. Of several each has its turn. What the hook makes ready runs at once. */
void nb_loop_at_rest(nb_loop_t *loop, nb_hook_t *hook);

/* Calls Ruby code from such a hook, on whichever fiber happens to sleep for all. The signal or
 * Thread#raise that may come meanwhile belongs to the runner: it goes there, and Qundef returns. */
VALUE nb_loop_look(nb_loop_t *loop, VALUE (*look)(VALUE), VALUE argument);

/* Has the hook called in a forked child, before the loop forgets the timers and watches of others:
 * their memory is whole, and nothing of it may be used afterwards. */
void nb_loop_on_fork(nb_loop_t *loop, nb_hook_t *hook);

/* The open loops of this process, for the few operations that concern all: IO#close, fork. */
extern nb_list_t nb_open_loops;

/* In a forked child: this thread's loop drops what belonged to other fibers and opens a new
 * backend. The loops of threads that did not survive end. */
void nb_loops_after_fork(void);

/* That function if it has not been called yet, because a trap handler may run first; otherwise
 * NULL. */
extern void (*nb_loops_stale)(void);

/* Opens the backend, the wake fd and the mailbox: in life.c, for fork.c. Returns 0 or -errno. */
int nb_loop_open_kernel_side(nb_loop_t *loop, const nb_backend_ops_t *ops);
void nb_loop_close_kernel_side(nb_loop_t *loop);

/* Frees everything that the loop has; afterwards it is closed. */
void nb_loop_release(nb_loop_t *loop);

void Init_nb_loop(VALUE mNB);
void Init_nb_fork(void);

#endif
