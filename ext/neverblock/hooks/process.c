/* process.c - process_wait: a child's end as a readable pidfd. Ruby. Read after: wait.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "base/clock.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ruby < 3.3 exports no C function for it. */
static VALUE reap(VALUE pid, int flags)
{
    return rb_funcall(rb_path2class("Process::Status"), rb_intern("wait"), 2, pid, INT2NUM(flags));
}

typedef struct {
    nb_loop_t *loop;
    int fd;
} nb_pidfd_t;

static VALUE await_end(VALUE argument)
{
    nb_pidfd_t *pidfd = (nb_pidfd_t *)argument;
    return INT2FIX(nb_wait_fd(pidfd->loop, pidfd->fd, NB_READABLE, NB_NEVER));
}

static VALUE close_pidfd(VALUE argument)
{
    nb_pidfd_t *pidfd = (nb_pidfd_t *)argument;
    nb_fdtable_closing(&pidfd->loop->fds, pidfd->fd);
    close(pidfd->fd);
    return Qnil;
}

/* A thread for what has no pidfd: any child, a process group, a kernel older than 5.3. */
static VALUE wait_in_thread(VALUE self, VALUE pid, VALUE flags)
{
    return rb_funcall(self, rb_intern("process_wait_in_thread"), 2, pid, flags);
}

/* @overload process_wait(pid, flags)
 *   Waits for a child to end.
 *   @param pid [Integer] as waitpid(2)
 *   @param flags [Integer] Process::WNOHANG, WUNTRACED
 *   @return [Process::Status, nil] as Process::Status.wait
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_process_wait(VALUE self, VALUE pid, VALUE flags)
{
    int options = NUM2INT(flags);
    nb_pidfd_t pidfd = {.loop = nb_loop_get(self), .fd = -1};
    VALUE status = reap(pid, options | WNOHANG); /* ended already, or no child of ours */
    if ((options & WNOHANG) || !NIL_P(status))
        return status;
    errno = 0;
#ifdef SYS_pidfd_open
    if (NUM2PIDT(pid) > 0 && !(options & WUNTRACED))
        pidfd.fd = (int)syscall(SYS_pidfd_open, NUM2PIDT(pid), 0);
#endif
    if (pidfd.fd < 0)
        return errno == ESRCH ? reap(pid, options | WNOHANG) : wait_in_thread(self, pid, flags);
    rb_update_max_fd(pidfd.fd);
    rb_ensure(await_end, (VALUE)&pidfd, close_pidfd, (VALUE)&pidfd);
    return reap(pid, options | WNOHANG);
}

void Init_nb_hooks_process(VALUE cScheduler)
{
    rb_define_method(cScheduler, "process_wait", rb_nb_scheduler_process_wait, 2);
}
