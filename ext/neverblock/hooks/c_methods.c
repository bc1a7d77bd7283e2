/* c_methods.c - methods in C in front of repairs written in Ruby. Uses ruby.h. Read after: hooks.h.
 *
 * Programs ask methods for their parameters: Net::HTTP and Dalli connect in another way if those of
 * TCPSocket#initialize are not a C function's, and RSpec lets no double take other arguments. Only
 * a function in C has parameters without names.
 */
#include "hooks/hooks.h"
#include <ruby/ractor.h>

/* A method does not learn in which class it was found, so each has functions of its own. The digits
 * are octal: C has no other numbers that can be put together. */
#define ROW(X, high)                                                                               \
    X(high##0) X(high##1) X(high##2) X(high##3) X(high##4) X(high##5) X(high##6) X(high##7)
#define ALL(X)                                                                                     \
    ROW(X, 00) ROW(X, 01) ROW(X, 02) ROW(X, 03) ROW(X, 04) ROW(X, 05) ROW(X, 06) ROW(X, 07)
#define METHODS 0100
#define MOST_REQUIRED 3

static struct {
    ID bodies[METHODS];
    unsigned count;
} methods;

static VALUE call_body(unsigned i, int argc, const VALUE *argv, VALUE self)
{
    int keywords = rb_keyword_given_p() ? RB_PASS_KEYWORDS : RB_NO_KEYWORDS;
    if (!rb_block_given_p())
        return rb_funcallv_kw(self, methods.bodies[i], argc, argv, keywords);
    VALUE *arguments = ALLOCA_N(VALUE, argc + 1); /* the body is private */
    arguments[0] = ID2SYM(methods.bodies[i]);
    if (argc) /* else argv may be NULL, which memcpy must not get */
        memcpy(arguments + 1, argv, (size_t)argc * sizeof(*argv));
    return rb_funcall_with_block_kw(self, rb_intern("__send__"), argc + 1, arguments,
                                    rb_block_proc(), keywords);
}

#define FUNCTIONS(i)                                                                               \
    static VALUE method_any_##i(int argc, VALUE *argv, VALUE self)                                 \
    {                                                                                              \
        return call_body(i, argc, argv, self);                                                     \
    }                                                                                              \
    static VALUE method_none_##i(VALUE self)                                                       \
    {                                                                                              \
        return call_body(i, 0, NULL, self);                                                        \
    }                                                                                              \
    static VALUE method_one_##i(VALUE self, VALUE first)                                           \
    {                                                                                              \
        return call_body(i, 1, &first, self);                                                      \
    }                                                                                              \
    static VALUE method_two_##i(VALUE self, VALUE first, VALUE second)                             \
    {                                                                                              \
        return call_body(i, 2, (VALUE[]){first, second}, self);                                    \
    }                                                                                              \
    static VALUE method_three_##i(VALUE self, VALUE first, VALUE second, VALUE third)              \
    {                                                                                              \
        return call_body(i, 3, (VALUE[]){first, second, third}, self);                             \
    }
ALL(FUNCTIONS)

#define ENTRY(i)                                                                                   \
    {method_any_##i, method_none_##i, method_one_##i, method_two_##i, method_three_##i},
static const struct {
    VALUE (*any)(int, VALUE *, VALUE);
    VALUE (*none)(VALUE);
    VALUE (*one)(VALUE, VALUE);
    VALUE (*two)(VALUE, VALUE, VALUE);
    VALUE (*three)(VALUE, VALUE, VALUE, VALUE);
} functions[METHODS] = {ALL(ENTRY)};

static void define(VALUE klass, ID name, unsigned i, int arity)
{
    switch (arity) {
    case 0:
        rb_define_method_id(klass, name, functions[i].none, 0);
        break;
    case 1:
        rb_define_method_id(klass, name, functions[i].one, 1);
        break;
    case 2:
        rb_define_method_id(klass, name, functions[i].two, 2);
        break;
    case MOST_REQUIRED:
        rb_define_method_id(klass, name, functions[i].three, 3);
        break;
    default:
        rb_define_method_id(klass, name, functions[i].any, -1);
    }
}

/* @!visibility private - defines klass#name in C with the arity that it has: it calls the method
 *   body. Returns false if there is no function for that. */
static VALUE rb_nb_native_c_method(VALUE mod, VALUE klass, VALUE name, VALUE body)
{
    ID id = SYM2ID(name);
    int arity = rb_mod_method_arity(klass, id);
    if (methods.count == METHODS || arity > MOST_REQUIRED)
        return Qfalse;
    methods.bodies[methods.count] = SYM2ID(body);
    rb_ext_ractor_safe(true);
    define(klass, id, methods.count++, arity);
    rb_ext_ractor_safe(false);
    return Qtrue;
}

void Init_nb_hooks_c_methods(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "c_method", rb_nb_native_c_method, 3);
}
