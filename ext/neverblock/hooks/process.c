/* process.c - process_wait: a child's end as a readable pidfd. Uses ruby.h. Read after: wait.h. */
#include "base/clock.h"
#include "hooks/hooks.h"
#include "loop/last_status.h"
#include <errno.h>
#include <ruby/thread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Ruby < 3.3 exports no C function for it. */
static VALUE reap(VALUE pid, int flags)
{
    return rb_funcall(rb_path2class("Process::Status"), rb_intern("wait"), 2, pid, INT2NUM(flags));
}

typedef struct {
    nb_loop_t *loop;
    VALUE fiber;
    int fd;
    nb_hook_t fork_hook;
} nb_pidfd_t;

/* It is not a Ruby object, and the fiber that would close it is the parent's. */
static void close_in_child(nb_hook_t *hook)
{
    nb_pidfd_t *pidfd = nb_container_of(hook, nb_pidfd_t, fork_hook);
    if (pidfd->fiber != rb_fiber_current())
        close(pidfd->fd);
}

static VALUE await_end(VALUE argument)
{
    nb_pidfd_t *pidfd = (nb_pidfd_t *)argument;
    return INT2FIX(nb_wait_fd(pidfd->loop, pidfd->fd, NB_READABLE, NB_NEVER));
}

static VALUE close_pidfd(VALUE argument)
{
    nb_pidfd_t *pidfd = (nb_pidfd_t *)argument;
    nb_list_remove(&pidfd->fork_hook.link);
    nb_fdtable_closing(&pidfd->loop->fds, pidfd->fd);
    close(pidfd->fd);
    return Qnil;
}

typedef struct {
    idtype_t type;
    id_t id;
    int options, error;
} nb_look_t;

static void *look(void *data)
{
    nb_look_t *look = data;
    siginfo_t info;
    look->error = waitid(look->type, look->id, &info, look->options) < 0 ? errno : 0;
    return NULL;
}

/* @!visibility private - waits, on a thread of its own, until a child (as for waitpid(2)) has
 *   changed its state; does not reap it. */
static VALUE rb_nb_native_await_child(VALUE mod, VALUE child, VALUE flags)
{
    pid_t pid = NUM2PIDT(child);
    int also = NUM2INT(flags);
    nb_look_t call = {
        .type = P_PGID,
        .id = (id_t)(pid ? -pid : getpgrp()),
        .options = WEXITED | WNOWAIT | (also & WUNTRACED ? WSTOPPED : 0) | (also & WCONTINUED),
    };
    if (pid == -1)
        call.type = P_ALL;
    if (pid > 0) {
        call.type = P_PID;
        call.id = (id_t)pid;
    }
    do {
        rb_thread_call_without_gvl(look, &call, RUBY_UBF_PROCESS, NULL);
        rb_thread_check_ints();
    } while (call.error == EINTR);
    return Qnil;
}

/* For cases without a pidfd: any child, a process group, a kernel older than 5.3. Somebody else may
 * be quicker to reap what the thread has seen. */
static VALUE wait_in_thread(VALUE self, VALUE pid, VALUE flags)
{
    VALUE status;
    do {
        rb_funcall(self, rb_intern("await_child"), 2, pid, flags);
        status = reap(pid, NUM2INT(flags) | WNOHANG);
    } while (NIL_P(status));
    return status;
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
    if (nb_last_status_clears(pidfd.loop, pid))
        return Qnil;
    nb_chaos_step(pidfd.loop);
    VALUE status = reap(pid, options | WNOHANG); /* ended already, or no child of ours */
    if ((options & WNOHANG) || !NIL_P(status))
        return status;
    errno = 0;
#if defined(__linux__) && defined(SYS_pidfd_open)
    if (NUM2PIDT(pid) > 0 && !(options & WUNTRACED))
        pidfd.fd = (int)syscall(SYS_pidfd_open, NUM2PIDT(pid), 0);
#endif
    if (pidfd.fd < 0)
        return errno == ESRCH ? reap(pid, options | WNOHANG) : wait_in_thread(self, pid, flags);
    rb_update_max_fd(pidfd.fd);
    pidfd.fiber = rb_fiber_current();
    pidfd.fork_hook.call = close_in_child;
    nb_loop_on_fork(pidfd.loop, &pidfd.fork_hook);
    rb_ensure(await_end, (VALUE)&pidfd, close_pidfd, (VALUE)&pidfd);
    return reap(pid, options | WNOHANG);
}

/* @!visibility private - clears $?: the fiber goes on with other work. For pools. */
static VALUE rb_nb_scheduler_clear_last_status(VALUE self)
{
    nb_last_status_restore(nb_loop_get(self), Qnil);
    return Qnil;
}

/* @!visibility private - sets $?, a Process::Status: of a child that another thread has waited for.
 */
static VALUE rb_nb_scheduler_set_last_status(VALUE self, VALUE status)
{
    nb_last_status_restore(nb_loop_get(self), status);
    return status;
}

void Init_nb_hooks_process(VALUE cScheduler)
{
    rb_define_method(cScheduler, "clear_last_status", rb_nb_scheduler_clear_last_status, 0);
    rb_define_method(cScheduler, "last_status=", rb_nb_scheduler_set_last_status, 1);
    rb_define_method(cScheduler, "process_wait", rb_nb_scheduler_process_wait, 2);
    rb_define_singleton_method(rb_path2class("NB::Native"), "await_child", rb_nb_native_await_child,
                               2);
}
