/* joined.c - IO#write of several strings, as one. Uses ruby.h. Read after: loop.h.
 *
 * For an unbuffered IO (sockets, pipes, $stderr, sync = true) Ruby writes them with one writev(2);
 * puts is a write of the line and of "\n". Under a scheduler Ruby calls io_write for each, and
 * between two calls others may run: lines of two fibers would mix (Ruby 3.1 to 3.4).
 */
#include "hooks/descriptor.h"
#include "hooks/hooks.h"
#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/ractor.h>

static ID id_original;

/* Returns one string, or undef if they cannot be joined: encodings that Ruby converts one by
 * one. */
static VALUE join(VALUE strings)
{
    VALUE joined = rb_str_dup(RARRAY_AREF(strings, 0));
    for (long i = 1; i < RARRAY_LEN(strings); i++) {
        VALUE string = RARRAY_AREF(strings, i);
        if (!rb_enc_compatible(joined, string))
            return Qundef;
        rb_str_append(joined, string);
    }
    return joined;
}

static VALUE write_joined(int argc, const VALUE *argv, VALUE self)
{
    VALUE strings = rb_ary_new_capa(argc);
    for (int i = 0; i < argc; i++)
        rb_ary_push(strings, rb_obj_as_string(argv[i]));
    VALUE joined = join(strings), count;
    if (joined != Qundef)
        count = rb_funcallv(self, id_original, 1, &joined);
    else
        count = rb_funcallv(self, id_original, argc, RARRAY_CONST_PTR(strings));
    RB_GC_GUARD(strings);
    return count;
}

/* A buffered IO takes one string after the other, those before one that its encoding does not have,
 * too. */
static bool takes_each(VALUE self)
{
    VALUE io = RFILE(self)->fptr ? rb_io_get_write_io(self) : self;
    return RFILE(io)->fptr && !nb_io_is_closed(io) &&
           !(nb_io_mode(io) & (FMODE_SYNC | FMODE_TTY)) &&
           !NIL_P(rb_funcall(io, rb_intern("external_encoding"), 0));
}

static VALUE call_write(int argc, VALUE *argv, VALUE self)
{
    if (argc > 1 && nb_is_loop(rb_fiber_scheduler_current()) && !takes_each(self))
        return write_joined(argc, argv, self);
    return rb_funcallv(self, id_original, argc, argv);
}

void nb_keep_original(VALUE klass, ID original, ID name)
{
    rb_funcall(rb_path2class("NB::Repairs"), rb_intern("keep"), 3, klass, ID2SYM(original),
               ID2SYM(name));
}

/* @!visibility private - replaces IO#write. */
static VALUE rb_nb_native_join_writes(VALUE mod)
{
    nb_keep_original(rb_cIO, id_original, rb_intern("write"));
    rb_ext_ractor_safe(true); /* other Ractors have no loop: there it is the original */
    rb_define_method(rb_cIO, "write", call_write, -1);
    rb_ext_ractor_safe(false);
    return Qnil;
}

void Init_nb_hooks_joined(void)
{
    id_original = rb_intern("__nb_write");
    rb_define_singleton_method(rb_path2class("NB::Native"), "join_writes", rb_nb_native_join_writes,
                               0);
}
