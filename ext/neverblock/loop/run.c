/* run.c - the runner: it waits until the other fibers have ended. Uses ruby.h.
 *
 * Read after: wait.h. */
#include "loop/guest.h"
#include "loop/wait.h"

void nb_fiber_left(nb_loop_t *loop)
{
    if (loop->runner && loop->fibers <= (size_t)loop->forked)
        nb_wake(loop->runner, NB_WOKEN);
}

/* A switch between fibers can leave a pending interrupt flagged on the fiber that slept; waking our
 * own thread flags it on this one. */
static void take_interrupts(nb_loop_t *loop)
{
    loop->interrupted = false;
    rb_thread_wakeup_alive(loop->thread);
    rb_thread_check_ints();
}

typedef struct {
    nb_loop_t *loop;
    size_t floor; /* 1: the caller is one of loop->fibers */
} nb_run_t;

static VALUE run_wait(VALUE argument)
{
    const nb_run_t *run = (nb_run_t *)argument;
    nb_loop_t *loop = run->loop;
    rb_thread_check_ints(); /* Ruby 3.4 flags only the first of several Thread#raise */
    if (loop->fibers <= run->floor && loop->ready.count)
        nb_yield(loop); /* a fiber in Scheduler#idle may just have been given work */
    while (loop->fibers > run->floor) {
        nb_park_t park;
        nb_park_init(loop, &park, NB_PARK_ROOT);
        loop->runner = &park;
        nb_park(&park);
        loop->runner = NULL;
        if (loop->interrupted)
            take_interrupts(loop);
    }
    return Qnil;
}

static VALUE run_leave(VALUE argument)
{
    ((nb_run_t *)argument)->loop->runner = NULL;
    return Qnil;
}

void nb_run(nb_loop_t *loop)
{
    VALUE fiber = rb_fiber_current();
    if (nb_guest_is_host(loop, fiber))
        rb_raise(rb_path2class("FiberError"),
                 "waiting here would stop the event loop that hosts ours, and with "
                 "it the event to wait for: use NB.async, or a fiber pool");
    bool counted = !RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0));
    nb_run_t run = {loop, counted};
    /* Ruby closes the scheduler of a forked child in whichever fiber forked. */
    if (loop->runner || (counted && !loop->forked))
        nb_yield(loop);
    else
        rb_ensure(run_wait, (VALUE)&run, run_leave, (VALUE)&run);
}
