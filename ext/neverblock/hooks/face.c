/* face.c - methods in C in front of repairs written in Ruby. Uses ruby.h. Read after: hooks.h.
 *
 * Net::HTTP and Dalli ask for the parameters of TCPSocket#initialize, and connect in another way if
 * these are not a C function's.
 */
#include "hooks/hooks.h"
#include <ruby/ractor.h>

#define FACES 3 /* TCPSocket's constructor is repaired twice, TCPServer's once */

static struct {
    ID bodies[FACES];
    unsigned count;
} faces;

static VALUE call_body(unsigned i, int argc, VALUE *argv, VALUE self)
{
    int keywords = rb_keyword_given_p() ? RB_PASS_KEYWORDS : RB_NO_KEYWORDS;
    return rb_funcallv_kw(self, faces.bodies[i], argc, argv, keywords);
}

static VALUE face_0(int argc, VALUE *argv, VALUE self)
{
    return call_body(0, argc, argv, self);
}

static VALUE face_1(int argc, VALUE *argv, VALUE self)
{
    return call_body(1, argc, argv, self);
}

static VALUE face_2(int argc, VALUE *argv, VALUE self)
{
    return call_body(2, argc, argv, self);
}

static VALUE (*const functions[FACES])(int, VALUE *, VALUE) = {face_0, face_1, face_2};

/* @!visibility private - defines klass#name in C: it calls the method body, without a block. */
static VALUE rb_nb_native_face(VALUE mod, VALUE klass, VALUE name, VALUE body)
{
    if (faces.count == FACES)
        rb_raise(rb_eRuntimeError, "NB::Native.face: no room for another method");
    faces.bodies[faces.count] = SYM2ID(body);
    rb_ext_ractor_safe(true);
    rb_define_method_id(klass, SYM2ID(name), functions[faces.count++], -1);
    rb_ext_ractor_safe(false);
    return Qnil;
}

void Init_nb_hooks_face(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "face", rb_nb_native_face, 3);
}
