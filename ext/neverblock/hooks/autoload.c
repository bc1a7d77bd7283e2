/* autoload.c - Kernel#autoload that notes the path, on Ruby 3.1. Uses ruby.h. Read after: hooks.h.
 *
 * In C, because Ruby's own looks for the module around the line of Ruby code that called it.
 */
#include "hooks/hooks.h"
#include <ruby/ractor.h>

static ID id_original, id_note;

static VALUE call_autoload(VALUE self, VALUE name, VALUE path)
{
    rb_funcall(rb_path2class("NB::Repairs"), id_note, 1, path);
    return rb_funcall(self, id_original, 2, name, path);
}

/* @!visibility private - replaces Kernel#autoload and Kernel.autoload. */
static VALUE rb_nb_native_note_autoloads(VALUE mod)
{
    nb_keep_original(rb_mKernel, id_original, rb_intern("autoload"));
    nb_keep_original(rb_singleton_class(rb_mKernel), id_original, rb_intern("autoload"));
    rb_ext_ractor_safe(true); /* in other Ractors nothing is noted */
    rb_define_global_function("autoload", call_autoload, 2);
    rb_ext_ractor_safe(false);
    return Qnil;
}

void Init_nb_hooks_autoload(void)
{
    id_original = rb_intern("__nb_autoload");
    id_note = rb_intern("note_autoload");
    rb_define_singleton_method(rb_path2class("NB::Native"), "note_autoloads",
                               rb_nb_native_note_autoloads, 0);
}
