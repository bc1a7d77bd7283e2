/* operation.c - blocking_operation_wait (Ruby >= 3.4): work without the GVL. Uses ruby.h.
 *
 * Ruby offers every open, stat and readdir, and 128 pieces of one Zlib call. A thread for each
 * would cost more than most of them take, so only operations that by nature wait for a disk leave
 * the loop. IO.copy_stream stays: it waits for sockets through io_wait, on this very fiber.
 */
#include "hooks/hooks.h"
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>

static ID long_calls[2];

/* "Not done": Ruby then goes its normal way. 3.4 checks for undef, as if there were no hook. */
#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 3
#define NOT_DONE Qnil
#else
#define NOT_DONE Qundef
#endif

VALUE nb_caller_frame(void)
{
    VALUE frames[2]; /* the first is the hook; Ruby 3.1 does not skip it when it is told to */
    int lines[2];
    return rb_profile_frames(0, 2, frames, lines) < 2 ? Qnil : frames[1];
}

/* The C method that the work belongs to, such as :fsync; 0: there is none. */
static ID method_of(VALUE frame)
{
    VALUE name = NIL_P(frame) ? Qnil : rb_profile_frame_method_name(frame);
    return NIL_P(name) ? 0 : rb_intern_str(name);
}

bool nb_called_by_ruby(void)
{
    VALUE frame = nb_caller_frame();
    return !NIL_P(frame) && !NIL_P(rb_profile_frame_path(frame));
}

/* @overload blocking_operation_wait(work)
 *   Runs work on an offload thread if by nature it waits for a disk (fsync, fdatasync); otherwise
 *   leaves it to Ruby.
 *   @param work [#call] has ended when this returns
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_blocking_operation_wait(VALUE self, VALUE work)
{
    nb_loop_t *loop = nb_loop_get(self);
    ID method = method_of(nb_caller_frame());
    if (method != long_calls[0] && method != long_calls[1]) {
        if (NOT_DONE == Qundef && nb_called_by_ruby())
            return rb_funcall(self, rb_intern("do_operation"), 1, work);
        return NOT_DONE;
    }
    loop->counters.offloads++;
    return rb_funcall(self, rb_intern("offload_operation"), 1, work);
}

void Init_nb_hooks_operation(VALUE cScheduler)
{
    long_calls[0] = rb_intern("fsync");
    long_calls[1] = rb_intern("fdatasync");
#ifdef HAVE_RB_FIBER_SCHEDULER_BLOCKING_OPERATION_WAIT
    rb_define_method(cScheduler, "blocking_operation_wait", rb_nb_scheduler_blocking_operation_wait,
                     1);
#else
    (void)rb_nb_scheduler_blocking_operation_wait;
#endif
}
