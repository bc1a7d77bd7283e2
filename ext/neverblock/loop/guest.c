/* guest.c - the loop as a guest of another event loop. Uses ruby.h. Read after: guest.h. */
#include "loop/guest.h"
#include "base/clock.h"
#include "loop/wait.h"
#include <errno.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif

#define ROUNDS 16 /* in which fibers make each other ready before the host gets its turn */

#ifdef __linux__
static int open_timer(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static void set_timer(nb_guest_t *guest, uint64_t when_ns)
{
    struct itimerspec spec = {{0, 0}, {0, 0}}; /* 0: not at all */
    if (when_ns != NB_NEVER) {
        spec.it_value.tv_sec = (time_t)(when_ns / 1000000000);
        spec.it_value.tv_nsec = (long)(when_ns % 1000000000);
    }
    timerfd_settime(guest->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
    guest->set_ns = when_ns;
}
#else
static int open_timer(void)
{
    return -ENOSYS;
}

static void set_timer(nb_guest_t *guest, uint64_t when_ns)
{
    guest->set_ns = when_ns;
}
#endif

static void on_timer(nb_watch_t *watch, int mask)
{
    nb_guest_t *guest = nb_container_of(watch, nb_guest_t, timer);
    uint64_t times;
    if (read(watch->fd, &times, sizeof(times)) > 0)
        guest->set_ns = NB_NEVER;
    (void)mask;
}

/* Called whenever the host's fiber goes on: the others may have waited for something new. */
static void rest(nb_loop_t *loop)
{
    if (loop->guest.turning)
        return;
    nb_loop_settle(loop);
    uint64_t next = nb_timers_next(&loop->timers);
    if (next != loop->guest.set_ns)
        set_timer(&loop->guest, next);
    loop->signalled = false;
    atomic_store(&loop->asleep, true);
    if (loop->ready.count)
        nb_loop_wakeup(loop);
}

/* Not a guest any more. Touches nothing that a forked child shares with its parent. */
static void leave(nb_loop_t *loop)
{
    nb_guest_t *guest = &loop->guest;
    atomic_store(&loop->asleep, false);
    guest->host = 0;
    nb_fdtable_remove(&loop->fds, &guest->timer);
    close(guest->timer.fd);
}

/* @!visibility private - the current fiber is from now on the host's. Returns the fd to watch. */
static VALUE rb_nb_scheduler_begin_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    if (loop->guest.host)
        rb_raise(rb_eRuntimeError, "the loop is already a guest");
    if (loop->fds.backend.fd < 0)
        rb_raise(rb_eNotImpError,
                 "the backend %s has no fd that another event loop could watch: use epoll",
                 loop->fds.backend.ops->name);
    int fd = open_timer();
    if (fd < 0)
        rb_syserr_fail(-fd, "timerfd_create");
    loop->guest = (nb_guest_t){
        .host = rb_fiber_current(),
        .timer = {.fd = fd, .mask = NB_READABLE, .on_ready = on_timer},
        .set_ns = NB_NEVER,
        .rest = rest,
        .leave = leave,
    };
    int result = nb_fdtable_add(&loop->fds, &loop->guest.timer);
    if (result < 0) {
        close(fd);
        loop->guest.host = 0;
        rb_syserr_fail(-result, "watching the timer");
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

/* @!visibility private - the host calls it when the fd is readable: those that are ready run. */
static VALUE rb_nb_scheduler_turn_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    if (!nb_guest_is_host(loop, rb_fiber_current()))
        rb_raise(rb_path2class("FiberError"),
                 "only the fiber that called begin_as_guest may give turns");
    atomic_store(&loop->asleep, false);
    loop->guest.turning = true;
    return rb_ensure(run_others, (VALUE)loop, end_turn, (VALUE)loop);
}

/* @!visibility private */
static VALUE rb_nb_scheduler_end_as_guest(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    if (loop->closed || !loop->guest.host)
        return Qnil;
    nb_fdtable_remove(&loop->fds, &loop->guest.timer);
    nb_fdtable_closing(&loop->fds, loop->guest.timer.fd); /* its number will be another file's */
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
