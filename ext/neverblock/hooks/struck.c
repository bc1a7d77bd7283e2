/* struck.c - what a timeout raises, and whether one has. Uses ruby.h. Read after: struck.h. */
#include "hooks/struck.h"

VALUE rb_cNBTimeoutExpired, rb_cNBTimeoutError;
static ID id_struck; /* no name that Ruby code could use */

static VALUE make_exception(const nb_timeout_t *timeout)
{
    VALUE klass = timeout->klass == rb_cNBTimeoutError ? rb_cNBTimeoutExpired : timeout->klass;
    if (!RB_TYPE_P(klass, T_CLASS))
        return klass;
    return rb_funcall(klass, rb_intern("new"), NIL_P(timeout->message) ? 0 : 1, timeout->message);
}

VALUE nb_timeout_exception(const nb_timeout_t *timeout)
{
    VALUE exception = make_exception(timeout);
    if (!OBJ_FROZEN(exception))
        rb_ivar_set(exception, id_struck, Qtrue);
    return exception;
}

/* @!visibility private - whether a timeout has raised the exception, in the midst of whatever its
 * block did; a class of the application's own does not tell. For pools. */
static VALUE rb_nb_scheduler_struck_p(VALUE self, VALUE exception)
{
    return RTEST(rb_attr_get(exception, id_struck)) ? Qtrue : Qfalse;
}

/* What Timeout itself raises in the block, where its version has a class for that: code that looks
 * for it finds it in a loop, too. */
static VALUE exception_class(void)
{
    VALUE mTimeout = rb_path2class("Timeout");
    ID name = rb_intern("ExitException");
    if (rb_const_defined(mTimeout, name))
        return rb_const_get(mTimeout, name);
    return rb_class_new(rb_eException);
}

void nb_struck_init(VALUE cScheduler)
{
    id_struck = rb_intern("neverblock_struck");
    rb_cNBTimeoutError = rb_path2class("Timeout::Error");
    rb_gc_register_mark_object(rb_cNBTimeoutError);
    rb_cNBTimeoutExpired = exception_class();
    rb_gc_register_mark_object(rb_cNBTimeoutExpired);
    /* What a timeout without a class of its own raises in its block. */
    rb_define_const(cScheduler, "Expired", rb_cNBTimeoutExpired);
    rb_define_method(cScheduler, "struck?", rb_nb_scheduler_struck_p, 1);
}
