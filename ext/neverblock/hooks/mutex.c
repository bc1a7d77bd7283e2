/* mutex.c - Thread::Mutex#sleep for the repair mutex_sleep. Uses ruby.h. Read after:
 * early_unblock.h.
 *
 * In C, because a Ruby method may be interrupted at each step: between the unlock and the wait
 * another thread would run, and wake a fiber that does not wait yet.
 */
#include "hooks/early_unblock.h"
#include "hooks/hooks.h"
#include <ruby/fiber/scheduler.h>
#include <ruby/ractor.h>
#include <time.h>

typedef struct {
    nb_loop_t *loop;
    VALUE scheduler, fiber, mutex, timeout;
    VALUE outer; /* the mutex of the Mutex#sleep that this one interrupts; or 0 */
} nb_mutex_sleep_t;

static VALUE unlock_and_sleep(VALUE argument)
{
    nb_mutex_sleep_t *sleep = (nb_mutex_sleep_t *)argument;
    rb_mutex_unlock(sleep->mutex);
    return rb_fiber_scheduler_kernel_sleep(sleep->scheduler, sleep->timeout);
}

static bool owned(VALUE mutex)
{
    return RTEST(rb_funcall(mutex, rb_intern("owned?"), 0));
}

typedef struct {
    VALUE mutex;
    VALUE late; /* the first exception that came meanwhile; or nil */
    int kill;   /* the tag of Thread#kill or Fiber#kill that came meanwhile; or 0 */
} nb_relock_t;

static VALUE lock_once(VALUE mutex)
{
    return owned(mutex) ? mutex : rb_mutex_lock(mutex);
}

static VALUE kill_again(VALUE tag)
{
    rb_jump_tag((int)tag);
}

/* What arrives meanwhile waits until the lock is ours, even what the question raises who owns it (a
 * timeout of a computing fiber strikes at any call). A killed fiber is killed anew each time that
 * it has waited. Ruby has what belongs to that tag only as its own, so rb_ensure keeps it. */
static VALUE lock_again(VALUE argument)
{
    nb_relock_t *relock = (nb_relock_t *)argument;
    int tag = 1;
    while (tag) {
        rb_protect(lock_once, relock->mutex, &tag);
        if (!tag)
            break;
        VALUE error = rb_errinfo();
        if (!nb_is_exception(error) && !relock->kill) {
            relock->kill = tag;
            rb_ensure(kill_again, (VALUE)tag, lock_again, argument);
        }
        if (NIL_P(relock->late))
            relock->late = error;
        rb_set_errinfo(Qnil);
    }
    if (!relock->kill && !NIL_P(relock->late))
        rb_exc_raise(relock->late);
    return Qnil;
}

static VALUE wake_up(VALUE argument)
{
    nb_mutex_sleep_t *sleep = (nb_mutex_sleep_t *)argument;
    nb_loop_t *loop = sleep->loop;
    if (sleep->outer)
        (void)nb_ptrmap_add(&loop->mutex_sleeps, sleep->fiber, (void *)sleep->outer);
    else
        nb_ptrmap_remove(&loop->mutex_sleeps, sleep->fiber);
    nb_relock_t relock = {sleep->mutex, Qnil, 0};
    lock_again((VALUE)&relock);
    if (!loop->closed)
        nb_early_unblock_forget(loop, sleep->fiber, sleep->mutex);
    return Qnil;
}

/* However it ends, the mutex is locked again. Returns seconds if woken, nil after the timeout. */
static VALUE rb_nb_mutex_sleep(int argc, VALUE *argv, VALUE mutex)
{
    nb_loop_t *loop = nb_loop_current();
    VALUE timeout = rb_check_arity(argc, 0, 1) ? argv[0] : Qnil;
    if (!loop || !owned(mutex))
        return rb_mutex_sleep(mutex, timeout);
    nb_mutex_sleep_t sleep = {
        .loop = loop,
        .scheduler = loop->self,
        .fiber = rb_fiber_current(),
        .mutex = mutex,
        .timeout = timeout,
    };
    if (nb_ptrmap_reserve(&loop->mutex_sleeps) < 0)
        rb_memerror();
    nb_early_unblock_forget(loop, sleep.fiber, mutex); /* of a lock that it has had since */
    sleep.outer = (VALUE)nb_ptrmap_put(&loop->mutex_sleeps, sleep.fiber, (void *)mutex);
    time_t begin = time(NULL);
    VALUE woken = rb_ensure(unlock_and_sleep, (VALUE)&sleep, wake_up, (VALUE)&sleep);
    return RTEST(woken) ? TIMET2NUM(time(NULL) - begin) : Qnil;
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_sleep(VALUE mod)
{
    rb_ext_ractor_safe(true); /* other Ractors have no loop: there it is the original */
    rb_define_method(rb_path2class("Thread::Mutex"), "sleep", rb_nb_mutex_sleep, -1);
    rb_ext_ractor_safe(false);
    return Qnil;
}

void Init_nb_hooks_mutex(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "repair_mutex_sleep",
                               rb_nb_native_repair_mutex_sleep, 0);
}
