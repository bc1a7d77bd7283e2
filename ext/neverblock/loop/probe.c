/* probe.c - where in the program threads are, asked from outside. Uses ruby.h.
 *
 * Only the thread itself can tell, because its frames change while others look. So it gets a
 * signal, and reads its frames in the handler, as sampling profilers do. SIGURG disturbs nobody: it
 * is ignored by default, and Go programs send it for the same purpose. The handler allocates
 * nothing, takes no lock and calls no Ruby code. It copies the strings, because nothing keeps them
 * alive later. Names of methods in C are in a table that may be growing at that moment, so a
 * postponed job finds them, at the thread's next check for interrupts.
 *
 * The thread may be without the GVL, so that another one begins to collect garbage meanwhile. That
 * one waits, while it marks, until the handler has read what the collector may move next.
 *
 * Read after: probe.h.
 */
#include "loop/probe.h"
#include "base/signals.h"
#include "loop/place.h"
#include "loop/postponed.h"
#include <errno.h>
#include <pthread.h>
#include <ruby/debug.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#define PATIENCE 100 /* times NAP_NS */
#define NAP_NS 200000
#define YIELDS 100 /* before a nap, for a handler */

enum { IDLE, ASKED, ANSWERS, ANSWERED };

typedef struct {
    atomic_int state; /* the handler has the rest while it ANSWERS, else the lock's holder */
    pthread_t thread;
    VALUE ruby_thread;
    VALUE callee; /* the innermost frame, if it is one of C, or nil; marked */
    bool collects, in_ruby;
    char place[sizeof((nb_stall_t *)0)->place];
    char name[sizeof((nb_stall_t *)0)->callee];
    VALUE frames[NB_PLACE_FRAMES];
    int lines[NB_PLACE_FRAMES];
} probe_t;

static probe_t probes[NB_PROBES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nb_postponed_t job;

static void note_place(probe_t *probe, VALUE frame, int line)
{
    VALUE path = rb_profile_frame_path(frame), label = rb_profile_frame_label(frame);
    bool named = RB_TYPE_P(label, T_STRING);
    snprintf(probe->place, sizeof(probe->place), "%.*s:%d:in `%.*s'", (int)RSTRING_LEN(path),
             RSTRING_PTR(path), line, named ? (int)RSTRING_LEN(label) : 1,
             named ? RSTRING_PTR(label) : "?");
}

/* The data of the calling thread, if it is the one asked. */
static void note_frames(probe_t *probe)
{
    VALUE *frames = probe->frames;
    int count = rb_profile_frames(0, NB_PLACE_FRAMES, frames, probe->lines);
    if (count <= 0 || rb_thread_current() != probe->ruby_thread)
        return; /* a Ruby thread that moves to another native thread */
    const VALUE *place = nb_place_find(frames, count);
    if (!place)
        return;
    note_place(probe, *place, probe->lines[place - frames]);
    VALUE innermost = rb_profile_frame_path(frames[0]);
    if (innermost == Qnil)
        probe->callee = frames[0];
    else
        probe->in_ruby = !nb_place_is_internal(innermost); /* those may wait in C */
}

/* The collector may be moving what frames point to: then a place that is known stays, and if none
 * is, it is asked for when the collection is over. */
static void note(probe_t *probe, bool collects)
{
    if (collects && probe->place[0])
        return;
    probe->collects = collects || (probe->collects && !probe->place[0]);
    probe->callee = Qnil;
    probe->place[0] = probe->name[0] = '\0';
    probe->in_ruby = false;
    if (!collects)
        note_frames(probe);
}

static void answer_as(probe_t *probe)
{
    int state = ASKED;
    if (atomic_load(&probe->state) != ASKED || !pthread_equal(pthread_self(), probe->thread) ||
        !atomic_compare_exchange_strong(&probe->state, &state, ANSWERS))
        return;
    atomic_thread_fence(memory_order_seq_cst); /* as in mark: one of both sees the other */
    note(probe, rb_during_gc());
    nb_postponed_request(&job);
    atomic_store(&probe->state, ANSWERED);
}

static void answer(int number)
{
    int saved = errno;
    for (size_t i = 0; i < NB_PROBES; i++)
        answer_as(&probes[i]);
    errno = saved;
}

static bool handler_is_ours(void)
{
    struct sigaction now;
    return !sigaction(SIGURG, NULL, &now) && now.sa_handler == answer;
}

static int send_signal(const nb_loop_t *loop)
{
#ifdef __linux__
    return (int)syscall(SYS_tgkill, getpid(), loop->watched.tid, SIGURG);
#else
    return pthread_kill(loop->watched.thread, SIGURG);
#endif
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* A handler is short, but its thread may have no core. */
static void await_handler(const probe_t *probe)
{
    for (int i = 0; i < YIELDS && atomic_load(&probe->state) == ANSWERS; i++)
        sched_yield();
    while (atomic_load(&probe->state) == ANSWERS)
        nap();
}

/* From now on no handler answers. */
static void take_back(probe_t *probe)
{
    int state = ASKED;
    if (!atomic_compare_exchange_strong(&probe->state, &state, IDLE))
        await_handler(probe);
}

static void await_answer(probe_t *probe)
{
    for (int i = 0; i < PATIENCE && atomic_load(&probe->state) != ANSWERED; i++)
        nap();
}

void nb_probe_ask(size_t i, const nb_loop_t *loop)
{
    probe_t *probe = &probes[i];
    if (!handler_is_ours())
        return;
    pthread_mutex_lock(&lock);
    bool pending = atomic_load(&probe->state) == ASKED; /* a signal that is not taken yet */
    if (!pending) {
        await_handler(probe);
        probe->thread = loop->watched.thread;
        probe->ruby_thread = loop->thread;
        atomic_store(&probe->state, ASKED);
    }
    pthread_mutex_unlock(&lock);
    if (pending)
        return;
    if (send_signal(loop))
        nb_probe_dismiss(i);
    else
        await_answer(probe);
}

/* Called when no thread is in the handler. */
static void forget(probe_t *probe)
{
    atomic_store(&probe->state, IDLE);
    probe->callee = Qnil;
    probe->collects = false;
    probe->place[0] = probe->name[0] = '\0';
}

void nb_probe_dismiss(size_t i)
{
    pthread_mutex_lock(&lock);
    take_back(&probes[i]);
    forget(&probes[i]);
    pthread_mutex_unlock(&lock);
}

void nb_probe_tell(size_t i, nb_stall_t *stall)
{
    probe_t *probe = &probes[i];
    pthread_mutex_lock(&lock);
    if (atomic_load(&probe->state) == ANSWERED) {
        memcpy(stall->place, probe->place, sizeof(stall->place));
        memcpy(stall->callee, probe->name, sizeof(stall->callee));
        stall->collects = probe->collects;
        stall->in_ruby = probe->in_ruby;
        stall->unnamed = !NIL_P(probe->callee) && !probe->name[0];
    }
    pthread_mutex_unlock(&lock);
}

static void name(probe_t *probe)
{
    pthread_mutex_lock(&lock);
    bool answered = atomic_load(&probe->state) == ANSWERED;
    if (answered && probe->collects && !probe->place[0] &&
        rb_thread_current() == probe->ruby_thread)
        note_frames(probe);
    VALUE callee = !answered || probe->name[0] ? Qnil : probe->callee;
    pthread_mutex_unlock(&lock);
    if (NIL_P(callee))
        return;
    VALUE label = rb_profile_frame_full_label(callee);
    pthread_mutex_lock(&lock);
    if (atomic_load(&probe->state) == ANSWERED && probe->callee == callee &&
        RB_TYPE_P(label, T_STRING))
        snprintf(probe->name, sizeof(probe->name), "%.*s", (int)RSTRING_LEN(label),
                 RSTRING_PTR(label));
    pthread_mutex_unlock(&lock);
    RB_GC_GUARD(label);
}

void nb_probe_name(void)
{
    for (size_t i = 0; i < NB_PROBES; i++)
        if (atomic_load(&probes[i].state) == ANSWERED)
            name(&probes[i]);
}

static void on_job(void *unused)
{
    nb_probe_name();
}

/* In every collection, before it moves anything. A handler that begins later sees that it runs. */
static void mark(void *unused)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (size_t i = 0; i < NB_PROBES; i++) {
        await_handler(&probes[i]);
        rb_gc_mark(probes[i].callee);
    }
}

static const rb_data_type_t marker_type = {
    .wrap_struct_name = "NB::Watchdog/probes",
    .function = {.dmark = mark},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* If somebody else has installed a handler, that stays, and reports name no place. */
static void install_handler(void)
{
    struct sigaction old, ours = {.sa_handler = answer, .sa_flags = SA_RESTART | SA_ONSTACK};
    nb_signals_hold(&ours.sa_mask);
    if (!sigaction(SIGURG, NULL, &old) && !(old.sa_flags & SA_SIGINFO) &&
        (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN))
        sigaction(SIGURG, &ours, NULL);
}

void nb_probe_install(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &marker_type, probes));
    job = nb_postponed(on_job);
    install_handler();
}

void nb_probe_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    for (size_t i = 0; i < NB_PROBES; i++)
        forget(&probes[i]);
}
