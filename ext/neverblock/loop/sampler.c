/* sampler.c - notes where a thread is, in signal handlers and Ruby's own hooks. Uses ruby.h.
 *
 * A timer on the thread's own CPU time sends it SIGPROF. So the time of other threads does not
 * count, and a call in C counts for as long as it takes. (The kernel looks at such timers at its
 * ticks, usually every 4 ms. So each note has the time since the last one.)
 *
 * Read after: sampler.h.
 */
#include "loop/sampler.h"
#include "base/clock.h"
#include "base/signals.h"
#include "loop/postponed.h"
#include "loop/stacks.h"
#include <errno.h>
#include <pthread.h>
#include <ruby/debug.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#endif

#define RING 128 /* a power of two */
#define KINDS 32

typedef struct {
    int kind, count;
    uint64_t took_ns;
    VALUE frames[NB_STACK_FRAMES];
    int lines[NB_STACK_FRAMES];
} note_t;

/* The sampled thread writes, also from a handler that interrupts its own writing. Whoever has the
 * GVL takes notes out. */
static struct {
    note_t *notes; /* RING */
    atomic_size_t head, tail;
    atomic_bool writes, on;
    pthread_t thread;
    uint64_t cpu_ns; /* noted so far */
    _Atomic uint64_t bare_ns[KINDS];
    int kind;
    void (*job)(void *);
#ifdef __linux__
    timer_t timer;
#endif
} sampler;

static nb_postponed_t job;

static void on_job(void *unused)
{
    if (sampler.job)
        sampler.job(NULL);
}

uint64_t nb_sampler_cpu_ns(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
        return 0;
    return (uint64_t)time.tv_sec * NB_NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t nb_sampler_noted_ns(void)
{
    return sampler.cpu_ns;
}

bool nb_sampler_is_here(void)
{
    return atomic_load(&sampler.on) && pthread_equal(pthread_self(), sampler.thread);
}

/* Adds to the last note, if it has the same stack and is not about to be taken out. */
static bool add_to_last(const note_t *note, size_t head, size_t tail)
{
    if (head - tail < 2)
        return false;
    note_t *last = &sampler.notes[(head - 1) & (RING - 1)];
    size_t count = (size_t)note->count;
    if (last->kind != note->kind || last->count != note->count ||
        memcmp(last->frames, note->frames, sizeof(VALUE) * count) ||
        memcmp(last->lines, note->lines, sizeof(int) * count))
        return false;
    last->took_ns += note->took_ns;
    return true;
}

void nb_sampler_note_bare(int kind, uint64_t took_ns)
{
    sampler.bare_ns[kind] += took_ns;
}

/* One of the RING notes is always free: the frames are read into it. */
static void write_note(int kind, uint64_t took_ns)
{
    size_t head = atomic_load(&sampler.head), tail = atomic_load(&sampler.tail);
    note_t *note = &sampler.notes[head & (RING - 1)];
    if (head - tail >= RING - 1) {
        nb_sampler_note_bare(kind, took_ns);
        return;
    }
    note->kind = kind;
    note->took_ns = took_ns;
    note->count = rb_profile_frames(0, NB_STACK_FRAMES, note->frames, note->lines);
    if (note->count < 0)
        note->count = 0;
    if (!add_to_last(note, head, tail))
        atomic_store(&sampler.head, head + 1);
}

void nb_sampler_note(int kind, uint64_t took_ns)
{
    if (atomic_exchange(&sampler.writes, true)) {
        nb_sampler_note_bare(kind, took_ns);
        return;
    }
    write_note(kind, took_ns);
    atomic_store(&sampler.writes, false);
    nb_postponed_request(&job);
}

static void note_cpu_time(void)
{
    uint64_t now = nb_sampler_cpu_ns(), took_ns = now > sampler.cpu_ns ? now - sampler.cpu_ns : 0;
    sampler.cpu_ns += took_ns;
    write_note(sampler.kind, took_ns);
    nb_postponed_request(&job);
}

/* A tick that comes during the writing of a note, or during GC, leaves its time to the next one. */
static void tick(int number)
{
    int saved = errno;
    if (nb_sampler_is_here() && !atomic_exchange(&sampler.writes, true)) {
        atomic_thread_fence(memory_order_seq_cst); /* as in mark: one of both sees the other */
        if (!rb_during_gc())
            note_cpu_time();
        atomic_store(&sampler.writes, false);
    }
    errno = saved;
}

void nb_sampler_skip(uint64_t cpu_ns)
{
    sampler.cpu_ns += cpu_ns;
}

#ifdef __linux__
static int start_timer(uint64_t interval_ns)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &sampler.timer))
        return -errno;
    struct itimerspec times = {.it_value.tv_nsec = (long)interval_ns,
                               .it_interval.tv_nsec = (long)interval_ns};
    int error = timer_settime(sampler.timer, 0, &times, NULL) ? -errno : 0;
    if (error < 0)
        timer_delete(sampler.timer);
    return error;
}

static void stop_timer(void)
{
    timer_delete(sampler.timer);
}
#else
static int start_timer(uint64_t interval_ns)
{
    return 0; /* there, CPU time is not sampled: it gets no lines */
}

static void stop_timer(void) {}
#endif

int nb_sampler_start(int kind, uint64_t interval_ns, void (*on_note)(void *))
{
    struct sigaction before, ours = {.sa_handler = tick, .sa_flags = SA_RESTART | SA_ONSTACK};
    if (!sampler.notes && !(sampler.notes = calloc(RING, sizeof(note_t))))
        return -ENOMEM;
    sampler.kind = kind;
    sampler.job = on_note;
    sampler.thread = pthread_self();
    sampler.cpu_ns = nb_sampler_cpu_ns();
    nb_signals_hold(&ours.sa_mask);
    sigaction(SIGPROF, NULL, &before);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler != tick)
        return -EBUSY;
    sigaction(SIGPROF, &ours, NULL);
    atomic_store(&sampler.on, true);
    int error = start_timer(interval_ns);
    if (error < 0)
        atomic_store(&sampler.on, false);
    return error;
}

/* The handler stays: a tick may still be on its way, and by default SIGPROF ends the process. */
void nb_sampler_stop(void)
{
    atomic_store(&sampler.on, false);
    stop_timer();
}

void nb_sampler_take(nb_sampler_take_t take)
{
    size_t tail = atomic_load(&sampler.tail);
    for (; tail != atomic_load(&sampler.head); atomic_store(&sampler.tail, ++tail)) {
        const note_t *note = &sampler.notes[tail & (RING - 1)];
        take(note->frames, note->lines, note->count, note->kind, note->took_ns);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t bare_ns = atomic_exchange(&sampler.bare_ns[kind], 0);
        if (bare_ns)
            take(NULL, NULL, 0, kind, bare_ns);
    }
}

/* In every collection, before it moves anything. The thread may be without the GVL, and in the
 * handler; one that begins later sees that Ruby collects. */
static void mark(void *unused)
{
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&sampler.writes) && !pthread_equal(pthread_self(), sampler.thread))
        sched_yield();
    size_t head = atomic_load(&sampler.head);
    for (size_t i = atomic_load(&sampler.tail); i != head; i++) {
        const note_t *note = &sampler.notes[i & (RING - 1)];
        for (int frame = 0; frame < note->count; frame++)
            rb_gc_mark(note->frames[frame]);
    }
}

static const rb_data_type_t marker_type = {
    .wrap_struct_name = "NB::Profile/sampler",
    .function = {.dmark = mark},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* In a forked child: the thread that was in the handler is not here. */
static void forget(void)
{
    atomic_store(&sampler.writes, false);
}

void Init_nb_sampler(void)
{
    pthread_atfork(NULL, NULL, forget);
    job = nb_postponed(on_job);
    rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &marker_type, &sampler));
}
