/* fork.c - a loop in a forked child, with only the forking fiber. Uses ruby.h.
 *
 * Ruby makes the forking fiber the child's first one; nobody will enter the others again. Their
 * memory is intact until the next collection. So first, whoever has more in the loop than parks
 * takes it out (nb_loop_on_fork); then the rest is dropped and never looked at again.
 *
 * No trap handler may run during that, nor before it with the parent's backend, so signals wait
 * from before the fork on. A signal that another thread had already taken is served first; if its
 * handler waits, the loop is cleared at once (nb_loops_stale).
 *
 * Read after: loop.h, wait.h. Used by: lib/neverblock/loop/fork.rb.
 */
#include "loop/transferred.h"
#include "loop/fork_mutexes.h"
#include "loop/profile.h"
#include "loop/shield.h"
#include "loop/watchdog.h"
#include <pthread.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/ractor.h>
#include <signal.h>
#include <unistd.h>

void nb_loop_on_fork(nb_loop_t *loop, nb_hook_t *hook)
{
    nb_list_append(&loop->on_fork, &hook->link);
}

/* The backend is the parent's: neither it nor the wake fd is told of what is taken out. */
static void call_on_fork(nb_loop_t *loop)
{
    atomic_store(&loop->asleep, false);
    nb_fdtable_abandon(&loop->fds);
    while (!nb_list_empty(&loop->on_fork)) {
        nb_hook_t *hook = nb_container_of(loop->on_fork.next, nb_hook_t, link);
        nb_list_remove(&hook->link);
        hook->call(hook);
    }
}

/* Keeps only this fiber's entry of hash (fiber -> anything). */
static void keep_own(VALUE hash, VALUE fiber)
{
    VALUE own = rb_hash_lookup2(hash, fiber, Qundef);
    rb_hash_clear(hash);
    if (own != Qundef)
        rb_hash_aset(hash, fiber, own);
}

static void forget_others(nb_loop_t *loop, VALUE fiber)
{
    nb_timers_free(&loop->timers);
    nb_ptrmap_free(&loop->parked);
    nb_transferred_free(loop);
    nb_ptrmap_free(&loop->mutex_sleeps);
    nb_ptrmap_free(&loop->idle);
    loop->ready.head = loop->ready.tail;
    loop->ready.count = 0;
    nb_list_clear(&loop->before_poll);
    nb_list_clear(&loop->next_poll);
    nb_list_clear(&loop->at_rest);
    keep_own(loop->deferred, fiber);
    keep_own(loop->early_unblocks, fiber);
    loop->fibers = RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0)) ? 0 : 1;
    loop->idle_fibers = loop->traced = loop->external = 0;
    loop->runner = NULL;
    loop->forked = true;
    loop->rescued = rb_errinfo();
    loop->current = fiber;
    if (loop->leader != fiber)
        loop->leader = Qnil;
    if (loop->overdue != fiber)
        loop->overdue = 0;
    loop->event_count = 0;
    loop->suspect_since_ns = 0;
    loop->signalled = false;
}

/* A trap handler forked during this wait, which continues when the handler has ended. */
static void resume_wait(nb_loop_t *loop, nb_park_t *park)
{
    bool ready = park->state == NB_READY;
    park->state = NB_PARKED;
    park->ready_place = NB_READY_IDLE;
    if (!ready && park->timer.when_ns != NB_NEVER)
        nb_loop_add_timer(loop, &park->timer, park->timer.when_ns);
    for (int i = 0; i < park->watch_count; i++) {
        if (!park->watches[i].watch.on_ready) { /* hung up: IO.select waits for it no more, */
            loop->external++;                   /* and counts it so */
            continue;
        }
        park->watches[i].watch.link = park->watches[i].watch.pending = (nb_list_t){NULL, NULL};
        if (nb_fdtable_add(&loop->fds, &park->watches[i].watch) != 0)
            ready = true; /* its next system call shows whether it is ready */
    }
    if (park->kind == NB_PARK_RESOLVE || park->kind == NB_PARK_OFFLOAD) {
        loop->external++;
        park->exception = rb_exc_new_cstr(rb_path2class("NB::ForkedError"),
                                          "a native thread was still working for this fiber, "
                                          "and did not survive the fork");
        ready = true;
    }
    if (park->kind == NB_PARK_ROOT)
        loop->runner = park;
    if (ready)
        nb_wake(park, park->reason ? park->reason : NB_WOKEN);
}

/* The child must at least be able to say so, which it could not under a scheduler that is closed.
 */
static void go_on_without(nb_loop_t *loop, int error)
{
    VALUE self = loop->self;
    nb_loop_release(loop);
    if (rb_fiber_scheduler_get() == self)
        rb_fiber_scheduler_set(Qnil);
    RB_GC_GUARD(self);
    rb_syserr_fail(error, "nb_loops_after_fork: opening the backend");
}

static void start_clean(nb_loop_t *loop, const nb_backend_ops_t *ops)
{
    VALUE fiber = rb_fiber_current();
    nb_fork_mutexes_t mutexes;
    nb_park_t *own = nb_ptrmap_get(&loop->parked, fiber);
    nb_fork_mutexes_note(loop, fiber, &mutexes);
    nb_loop_close_kernel_side(loop);
    forget_others(loop, fiber);
    int result = nb_loop_open_kernel_side(loop, ops);
    if (result < 0)
        go_on_without(loop, -result);
    if ((own && nb_ptrmap_add(&loop->parked, fiber, own) < 0) ||
        nb_shields_after_fork(loop, fiber) < 0)
        rb_memerror();
    for (; own; own = own->outer)
        if (own->state != NB_RUNNING)
            resume_wait(loop, own);
    nb_fiber_left(loop);
    nb_watchdog_add(loop);
    nb_fork_mutexes_release(loop, &mutexes);
}

static bool is_elsewhere(const nb_loop_t *loop)
{
    return loop->thread && loop->thread != rb_thread_current();
}

static nb_loop_t *next_of_parent(bool elsewhere)
{
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next) {
        nb_loop_t *loop = nb_container_of(item, nb_loop_t, link);
        if (loop->pid != getpid() && is_elsewhere(loop) == elsewhere)
            return loop;
    }
    return NULL;
}

/* First those of other threads, whose stacks are gone: what follows runs Ruby code, which may
 * raise, and the collector would look at these stacks. It may also free loops, so none is kept over
 * that.
 */
void nb_loops_after_fork(void)
{
    nb_loops_stale = NULL;
    nb_profile_forget();
    for (nb_loop_t *loop; (loop = next_of_parent(true));) {
        call_on_fork(loop);
        nb_loop_release(loop);
    }
    for (nb_loop_t *loop; (loop = next_of_parent(false));) {
        const nb_backend_ops_t *ops = loop->fds.backend.ops;
        call_on_fork(loop);
        start_clean(loop, ops);
    }
}

static VALUE serve_signals(VALUE unused)
{
    rb_thread_check_ints();
    return Qnil;
}

static VALUE clear_loops(VALUE unused)
{
    nb_loops_after_fork();
    return Qnil;
}

/* @!visibility private */
static VALUE rb_nb_native_after_fork(VALUE mod)
{
    return rb_ensure(serve_signals, Qnil, clear_loops, Qnil);
}

static void on_fork_in_child(void)
{
    nb_loops_stale = nb_loops_after_fork;
}

/* ---- signals --------------------------------------------------------------------------------- */

static VALUE yield_block(VALUE unused)
{
    rb_thread_check_ints();
    return rb_yield_values(0);
}

static VALUE restore_signals(VALUE mask)
{
    pthread_sigmask(SIG_SETMASK, (sigset_t *)mask, NULL);
    return Qnil;
}

/* @!visibility private - runs the block, which forks; signals are delivered when it has ended. */
static VALUE rb_nb_native_without_signals(VALUE mod)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t all, old;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    return rb_ensure(yield_block, Qnil, restore_signals, (VALUE)&old);
}

void Init_nb_fork(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_ext_ractor_safe(true); /* in the child there is only one thread */
    rb_define_singleton_method(mNative, "after_fork", rb_nb_native_after_fork, 0);
    rb_define_singleton_method(mNative, "without_signals", rb_nb_native_without_signals, 0);
    rb_ext_ractor_safe(false);
    pthread_atfork(NULL, NULL, on_fork_in_child);
}
