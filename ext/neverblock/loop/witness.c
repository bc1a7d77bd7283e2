/* witness.c - where in the program a thread is, asked from outside. Uses ruby.h.
 *
 * Only the thread itself can tell, because its frames change while others look. So it gets a
 * signal, and reads its frames in the handler, as sampling profilers do. SIGURG disturbs nobody: it
 * is ignored by default, and Go programs send it for the same purpose. The handler allocates
 * nothing, takes no lock and calls no Ruby code. It copies the strings, because nothing keeps them
 * alive later. Names of methods in C are in a table that may be growing at that moment, so a
 * postponed job finds them, at the thread's next check for interrupts.
 *
 * Read after: witness.h.
 */
#include "loop/witness.h"
#include "loop/place.h"
#include "loop/postponed.h"
#include <errno.h>
#include <pthread.h>
#include <ruby/debug.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#define PATIENCE 100 /* times NAP_NS */
#define NAP_NS 200000

enum { IDLE, ASKED, ANSWERS, ANSWERED };

static struct {
    pthread_mutex_t lock; /* of the answer, but for the handler, which has it by its state */
    atomic_int state;
    pthread_t thread;
    VALUE ruby_thread;
    VALUE callee; /* the innermost frame, if it is one of C; the collector knows this address */
    bool collects, in_ruby;
    char place[sizeof((nb_stall_t *)0)->place];
    char name[sizeof((nb_stall_t *)0)->callee];
} witness = {.lock = PTHREAD_MUTEX_INITIALIZER};

static nb_postponed_t job;

static void note_place(VALUE frame, int line)
{
    VALUE path = rb_profile_frame_path(frame), label = rb_profile_frame_label(frame);
    bool named = RB_TYPE_P(label, T_STRING);
    snprintf(witness.place, sizeof(witness.place), "%.*s:%d:in `%.*s'", (int)RSTRING_LEN(path),
             RSTRING_PTR(path), line, named ? (int)RSTRING_LEN(label) : 1,
             named ? RSTRING_PTR(label) : "?");
}

/* The data of the calling thread, if it is the one asked. */
static void note_frames(void)
{
    static VALUE frames[NB_PLACE_FRAMES];
    static int lines[NB_PLACE_FRAMES];
    int count = rb_profile_frames(0, NB_PLACE_FRAMES, frames, lines);
    if (count <= 0 || rb_thread_current() != witness.ruby_thread)
        return; /* a Ruby thread that moves to another native thread */
    const VALUE *place = nb_place_find(frames, count);
    if (!place)
        return;
    note_place(*place, lines[place - frames]);
    VALUE innermost = rb_profile_frame_path(frames[0]);
    if (innermost == Qnil)
        witness.callee = frames[0];
    else
        witness.in_ruby = !nb_place_is_internal(innermost); /* those may wait in C */
}

static void answer(int number)
{
    int saved = errno, state = ASKED;
    if (atomic_load(&witness.state) == ASKED && pthread_equal(pthread_self(), witness.thread) &&
        atomic_compare_exchange_strong(&witness.state, &state, ANSWERS)) {
        witness.collects = rb_during_gc();
        if (!witness.collects) /* it may be moving what frames point to */
            note_frames();
        nb_postponed_request(&job);
        atomic_store(&witness.state, ANSWERED);
    }
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

static void await_answer(void)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    int state = ASKED;
    for (int i = 0; i < PATIENCE && atomic_load(&witness.state) != ANSWERED; i++)
        nanosleep(&nap, NULL);
    if (!atomic_compare_exchange_strong(&witness.state, &state, IDLE))
        while (atomic_load(&witness.state) == ANSWERS)
            nanosleep(&nap, NULL);
}

void nb_witness_ask(const nb_loop_t *loop)
{
    pthread_mutex_lock(&witness.lock);
    witness.thread = loop->watched.thread;
    witness.ruby_thread = loop->thread;
    witness.callee = Qnil;
    witness.place[0] = witness.name[0] = '\0';
    witness.collects = witness.in_ruby = false;
    if (handler_is_ours()) {
        atomic_store(&witness.state, ASKED);
        if (!send_signal(loop))
            await_answer();
        atomic_store(&witness.state, IDLE);
    }
    pthread_mutex_unlock(&witness.lock);
}

bool nb_witness_knows(void)
{
    pthread_mutex_lock(&witness.lock);
    bool knows = witness.place[0];
    pthread_mutex_unlock(&witness.lock);
    return knows;
}

void nb_witness_tell(nb_stall_t *stall)
{
    pthread_mutex_lock(&witness.lock);
    memcpy(stall->place, witness.place, sizeof(stall->place));
    memcpy(stall->callee, witness.name, sizeof(stall->callee));
    stall->collects = witness.collects;
    stall->in_ruby = witness.in_ruby;
    stall->unnamed = !NIL_P(witness.callee) && !witness.name[0];
    pthread_mutex_unlock(&witness.lock);
}

void nb_witness_name(void)
{
    pthread_mutex_lock(&witness.lock);
    if (witness.collects && !witness.place[0] && rb_thread_current() == witness.ruby_thread)
        note_frames();
    VALUE callee = witness.name[0] ? Qnil : witness.callee;
    pthread_mutex_unlock(&witness.lock);
    if (NIL_P(callee))
        return;
    VALUE label = rb_profile_frame_full_label(callee);
    pthread_mutex_lock(&witness.lock);
    if (witness.callee == callee && RB_TYPE_P(label, T_STRING))
        snprintf(witness.name, sizeof(witness.name), "%.*s", (int)RSTRING_LEN(label),
                 RSTRING_PTR(label));
    pthread_mutex_unlock(&witness.lock);
    RB_GC_GUARD(label);
}

static void on_job(void *unused)
{
    nb_witness_name();
}

/* If somebody else has installed a handler, that stays, and reports name no place. */
static void install_handler(void)
{
    struct sigaction old, ours = {.sa_handler = answer, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    if (!sigaction(SIGURG, NULL, &old) && !(old.sa_flags & SA_SIGINFO) &&
        (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN))
        sigaction(SIGURG, &ours, NULL);
}

void nb_witness_install(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    witness.callee = Qnil;
    rb_gc_register_address(&witness.callee);
    job = nb_postponed(on_job);
    install_handler();
}

void nb_witness_forget(void)
{
    pthread_mutex_init(&witness.lock, NULL);
    atomic_store(&witness.state, IDLE);
}
