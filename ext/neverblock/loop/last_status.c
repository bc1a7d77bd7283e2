/* last_status.c - each fiber has a $? of its own. Uses ruby.h. Read after: last_status.h. */
#include "loop/last_status.h"
#include <limits.h>
#include <ruby/fiber/scheduler.h>

#define NO_CHILD (-INT_MAX) /* a process group that no kernel has */

static VALUE process_wait; /* the method Process.wait, as Ruby has it */

static VALUE call_process_wait(VALUE unused)
{
    VALUE pid = INT2NUM(NO_CHILD);
    return rb_method_call(1, &pid, process_wait);
}

/* Ruby has a function that sets $?, but none that clears it. Process.wait clears it if the
 * scheduler says that nothing has ended. In a blocking fiber it would not ask the scheduler. */
static void clear(nb_loop_t *loop)
{
    int tag = 0;
    if (rb_fiber_scheduler_current() != loop->self)
        return;
    loop->clears_status++;
    rb_protect(call_process_wait, Qnil, &tag);
    loop->clears_status--;
    if (tag)
        rb_jump_tag(tag);
}

static void set(VALUE status)
{
    rb_last_status_set(NUM2INT(rb_funcall(status, rb_intern("to_i"), 0)),
                       NUM2PIDT(rb_funcall(status, rb_intern("pid"), 0)));
}

void nb_last_status_set(nb_loop_t *loop, VALUE status)
{
    if (NIL_P(status))
        clear(loop);
    else
        set(status);
}

/* A TracePoint may run code in between, which waits for children of its own. */
bool nb_last_status_clears(const nb_loop_t *loop, VALUE pid)
{
    return loop->clears_status && NUM2PIDT(pid) == NO_CHILD;
}

/* @!visibility private - sets $? to a Process::Status, in any fiber; nil leaves it as it is. */
static VALUE rb_nb_native_set_last_status(VALUE mod, VALUE status)
{
    if (!NIL_P(status) && rb_last_status_get() != status)
        set(status);
    return status;
}

void Init_nb_last_status(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"),
                               "last_status=", rb_nb_native_set_last_status, 1);
    process_wait = rb_obj_method(rb_mProcess, ID2SYM(rb_intern("wait")));
    rb_gc_register_mark_object(process_wait);
}
