/* guest.c - the loop as a guest of another event loop. Uses ruby.h. Read after: guest.h. */
#include "loop/guest.h"
#include "base/clock.h"
#include "loop/wait.h"
#include "loop/watchdog.h"

#define ROUNDS 16 /* in which fibers make each other ready before the host gets its turn */

static int set_alarm(nb_loop_t *loop, uint64_t when_ns)
{
    loop->guest.set_ns = when_ns;
    return loop->fds.backend.ops->alarm(&loop->fds.backend, when_ns);
}

/* Called whenever the host's fiber continues: others may have begun to wait for something new. */
static void rest(nb_loop_t *loop)
{
    if (loop->guest.turning)
        return;
    nb_loop_settle(loop);
    uint64_t next = nb_timers_next(&loop->timers);
    if (next != loop->guest.set_ns)
        set_alarm(loop, next);
    loop->signalled = false;
    atomic_store(&loop->asleep, true);
    if (loop->ready.count)
        nb_loop_wakeup(loop);
}

/* No longer a guest. Touches nothing that a forked child shares with its parent. */
static void leave(nb_loop_t *loop)
{
    nb_watchdog_awake(loop);
    loop->guest.host = 0;
}

/* @!visibility private - makes the current fiber the host's. Returns the fd to watch. */
static VALUE rb_nb_scheduler_begin_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    if (loop->guest.host)
        rb_raise(rb_eRuntimeError, "the loop is already a guest");
    if (!loop->fds.backend.ops->alarm)
        rb_raise(rb_eNotImpError,
                 "the backend %s has no fd that another event loop could watch: use %s",
                 loop->fds.backend.ops->name, nb_backends[0]->name);
    loop->guest = (nb_guest_t){
        .host = rb_fiber_current(),
        .rest = rest,
        .leave = leave,
    };
    int result = set_alarm(loop, NB_NEVER);
    if (result < 0) {
        loop->guest.host = 0;
        rb_syserr_fail(-result, "setting an alarm");
    }
    rest(loop);
    return INT2NUM(loop->fds.backend.fd);
}

static VALUE run_others(VALUE argument)
{
    nb_loop_t *loop = (nb_loop_t *)argument;
    nb_loop_turn(loop, false);
    for (int round = 0; loop->ready.count && round < ROUNDS; round++)
        nb_yield(loop);
    return Qnil;
}

static VALUE end_turn(VALUE argument)
{
    nb_loop_t *loop = (nb_loop_t *)argument;
    loop->guest.turning = false;
    if (loop->guest.host)
        rest(loop);
    return Qnil;
}

/* @!visibility private - the host calls it when the fd is readable: runs the ready fibers. */
static VALUE rb_nb_scheduler_turn_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    if (!nb_guest_is_host(loop, rb_fiber_current()))
        rb_raise(rb_path2class("FiberError"),
                 "only the fiber that called begin_as_guest may give turns");
    nb_watchdog_awake(loop);
    loop->guest.turning = true;
    return rb_ensure(run_others, (VALUE)loop, end_turn, (VALUE)loop);
}

/* @!visibility private */
static VALUE rb_nb_scheduler_end_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (loop->closed || !loop->guest.host)
        return Qnil;
    set_alarm(loop, NB_NEVER);
    leave(loop);
    return Qnil;
}

/* @!visibility private - whether the current fiber is the host's, which must not wait. */
static VALUE rb_nb_scheduler_host_p(VALUE self)
{
    return nb_guest_is_host(nb_loop_any(self), rb_fiber_current()) ? Qtrue : Qfalse;
}

void Init_nb_guest(VALUE cScheduler)
{
    rb_define_method(cScheduler, "host?", rb_nb_scheduler_host_p, 0);
    rb_define_method(cScheduler, "begin_as_guest", rb_nb_scheduler_begin_as_guest, 0);
    rb_define_method(cScheduler, "turn_as_guest", rb_nb_scheduler_turn_as_guest, 0);
    rb_define_method(cScheduler, "end_as_guest", rb_nb_scheduler_end_as_guest, 0);
}
