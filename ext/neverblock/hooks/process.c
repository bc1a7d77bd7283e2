/* process.c - process_wait: a child's end as a readable pidfd. Uses ruby.h. Read after: wait.h. */
#include "base/clock.h"
#include "base/list.h"
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

/* On the stack of the fiber that waits for it. */
typedef struct {
    nb_loop_t *loop;
    VALUE scheduler, fiber;
    pid_t pid;
    int flags, fd; /* the pidfd, or -1 */
    int status;    /* as of waitpid(2), once it is reaped */
    bool reaped;   /* by rb_nb_native_reap_awaited */
    nb_hook_t fork_hook;
} nb_child_t;

/* The fiber that waits for it is the parent's. The fd is no Ruby object. */
static void forget_in_child(nb_hook_t *hook)
{
    nb_child_t *child = nb_container_of(hook, nb_child_t, fork_hook);
    if (child->fiber != rb_fiber_current() && child->fd >= 0)
        close(child->fd);
}

/* A loop that ends forgets its hooks: the stacks of fibers that it leaves may be gone later. */
static void reap_awaited_in(nb_loop_t *loop)
{
    for (nb_list_t *item = loop->on_fork.next; item != &loop->on_fork; item = item->next) {
        nb_hook_t *hook = nb_container_of(item, nb_hook_t, link);
        nb_child_t *child = nb_container_of(hook, nb_child_t, fork_hook);
        if (hook->call == forget_in_child && child->pid > 0 && !child->reaped)
            child->reaped = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
    }
}

/* @!visibility private - reaps the children that fibers wait for and that have ended. For whoever
 * is about to reap any child: without a loop, a thread that waits in waitpid(2) is always quicker
 *   than a handler of CHLD. */
static VALUE rb_nb_native_reap_awaited(VALUE mod)
{
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next)
        reap_awaited_in(nb_container_of(item, nb_loop_t, link));
    return Qnil;
}

/* Ruby has no other function that makes a Process::Status. */
static VALUE status_of(const nb_child_t *child)
{
    VALUE before = rb_last_status_get(), status;
    rb_last_status_set(child->status, child->pid);
    status = rb_last_status_get();
    nb_last_status_restore(child->loop, before);
    return status;
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

/* Somebody else may be quicker to reap what has ended. */
static VALUE reap_child(const nb_child_t *child)
{
    return child->reaped ? status_of(child) : reap(PIDT2NUM(child->pid), child->flags | WNOHANG);
}

/* For cases without a pidfd: any child, a process group, a kernel older than 5.3. */
static VALUE wait_in_thread(const nb_child_t *child)
{
    VALUE status, pid = PIDT2NUM(child->pid);
    do {
        rb_funcall(child->scheduler, rb_intern("await_child"), 2, pid, INT2NUM(child->flags));
        status = reap_child(child);
    } while (NIL_P(status));
    return status;
}

static VALUE await_end(VALUE argument)
{
    const nb_child_t *child = (nb_child_t *)argument;
    if (child->fd < 0)
        return wait_in_thread(child);
    nb_wait_fd(child->loop, child->fd, NB_READABLE, NB_NEVER);
    return reap_child(child);
}

static VALUE forget(VALUE argument)
{
    nb_child_t *child = (nb_child_t *)argument;
    nb_list_remove(&child->fork_hook.link);
    if (child->fd < 0)
        return Qnil;
    nb_fdtable_closing(&child->loop->fds, child->fd);
    close(child->fd);
    return Qnil;
}

/* Returns the child's pidfd; -1 if there is none, and then whether it has ended already. */
static int open_pidfd(pid_t pid, int flags, bool *ended)
{
    int fd = -1;
    errno = 0;
#if defined(__linux__) && defined(SYS_pidfd_open)
    if (pid > 0 && !(flags & WUNTRACED))
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
    *ended = fd < 0 && errno == ESRCH;
    if (fd >= 0)
        rb_update_max_fd(fd);
    return fd;
}

/* @overload process_wait(pid, flags)
 *   Waits for a child to end.
 *   @param pid [Integer] as waitpid(2)
 *   @param flags [Integer] Process::WNOHANG, WUNTRACED
 *   @return [Process::Status, nil] as Process::Status.wait
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_process_wait(VALUE self, VALUE pid, VALUE flags)
{
    bool ended;
    nb_child_t child = {.loop = nb_loop_get(self),
                        .scheduler = self,
                        .fiber = rb_fiber_current(),
                        .pid = NUM2PIDT(pid),
                        .flags = NUM2INT(flags),
                        .fork_hook.call = forget_in_child};
    if (nb_last_status_clears(child.loop, pid))
        return Qnil;
    nb_chaos_step(child.loop);
    VALUE status = reap(pid, child.flags | WNOHANG); /* ended already, or no child of ours */
    if ((child.flags & WNOHANG) || !NIL_P(status))
        return status;
    child.fd = open_pidfd(child.pid, child.flags, &ended);
    if (ended)
        return reap(pid, child.flags | WNOHANG);
    nb_loop_on_fork(child.loop, &child.fork_hook);
    return rb_ensure(await_end, (VALUE)&child, forget, (VALUE)&child);
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
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "await_child", rb_nb_native_await_child, 2);
    rb_define_singleton_method(mNative, "reap_awaited", rb_nb_native_reap_awaited, 0);
}
