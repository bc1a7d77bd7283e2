/* timeout_error.c - what a timeout raises, and whether one has. Uses ruby.h. Read after:
 * timeout_error.h. */
#include "hooks/timeout_error.h"

VALUE rb_cNBTimeoutExpired, rb_cNBTimeoutError;
static bool is_shown;
static ID id_cause;
static ID id_struck; /* no name that Ruby code could use */

/* As Thread#raise makes it, by which Timeout raises in a thread. */
static VALUE make_exception(const nb_timeout_t *timeout)
{
    VALUE klass = timeout->klass == rb_cNBTimeoutError ? rb_cNBTimeoutExpired : timeout->klass;
    VALUE arguments[] = {klass, timeout->message};
    return rb_make_exception(NIL_P(timeout->message) ? 1 : 2, arguments);
}

VALUE nb_timeout_exception(const nb_timeout_t *timeout)
{
    VALUE exception = make_exception(timeout);
    if (OBJ_FROZEN(exception))
        return exception;
    rb_ivar_set(exception, id_struck, Qtrue);
    if (!RTEST(rb_ivar_defined(exception, id_cause)))
        nb_set_cause(exception, Qnil); /* it comes from outside, as if by Thread#raise */
    return exception;
}

void nb_set_cause(VALUE exception, VALUE cause)
{
    rb_ivar_set(exception, id_cause, cause);
}

/* @!visibility private - whether a timeout raised the exception, in the middle of whatever its
 *   block did; the application's own error class does not show it. For pools. */
static VALUE rb_nb_scheduler_struck_p(VALUE self, VALUE exception)
{
    return RTEST(rb_attr_get(exception, id_struck)) ? Qtrue : Qfalse;
}

/* What Timeout itself raises in the block, if its version has a class for that: code that looks for
 * the class finds it in a loop, too. */
static VALUE exception_class(void)
{
    VALUE mTimeout = rb_path2class("Timeout");
    ID name = rb_intern("ExitException");
    is_shown = rb_const_defined(mTimeout, name);
    return is_shown ? rb_const_get(mTimeout, name)
                    : rb_funcall(rb_cClass, rb_intern("new"), 1, rb_eException);
}

bool nb_expired_is_shown(void)
{
    return is_shown;
}

void nb_timeout_error_init(VALUE cScheduler)
{
    id_struck = rb_intern("neverblock_struck");
    id_cause = rb_intern("cause"); /* where Ruby keeps it */
    rb_cNBTimeoutError = rb_path2class("Timeout::Error");
    rb_gc_register_mark_object(rb_cNBTimeoutError);
    rb_cNBTimeoutExpired = exception_class();
    rb_gc_register_mark_object(rb_cNBTimeoutExpired);
    /* What a timeout without a class of its own raises in its block. */
    rb_define_const(cScheduler, "Expired", rb_cNBTimeoutExpired);
    rb_define_method(cScheduler, "struck?", rb_nb_scheduler_struck_p, 1);
}
