/* fiber_blocking.c - Fiber.blocking, which Ruby 3.1 does not have yet. Uses ruby.h.
 * Read after: hooks.h.
 *
 * A bit in the struct of a fiber says that it is a blocking one, and whenever Ruby switches to such
 * a fiber, it counts the thread as blocking. So a helper sets the bit, and switches back.
 *
 * Ruby's structs are private. A fiber that has not begun shows where the bit is: Fiber#blocking?
 * must follow it. If that shows anything unexpected, the place stays unknown.
 */
#include "hooks/hooks.h"
#include <ruby/ractor.h>
#include <ruby/version.h>

#if defined(__GLIBC__) && RUBY_API_VERSION_CODE < 30200
#include <malloc.h>

#define TRIES 100 /* an interrupt may strike in the helper, each time another one */

static size_t place;
static unsigned bit; /* of the word at place; 0: not known */

static unsigned *words_of(VALUE fiber)
{
    return RTYPEDDATA_DATA(fiber);
}

static bool is_blocking(VALUE fiber)
{
    return RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0));
}

/* ---- where it is --------------------------------------------------------------------------- */

static VALUE nothing(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    return Qnil;
}

static VALUE new_fiber(VALUE blocking)
{
    VALUE options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("blocking")), blocking);
    return rb_block_call_kw(rb_path2class("Fiber"), rb_intern("new"), 1, &options, nothing, Qnil,
                            RB_PASS_KEYWORDS);
}

static bool decides(unsigned *word, unsigned change, VALUE fiber)
{
    VALUE disabled = rb_gc_disable(); /* until the word is as it was */
    *word ^= change;
    bool followed = is_blocking(fiber);
    *word ^= change;
    if (!RTEST(disabled))
        rb_gc_enable();
    return followed && !is_blocking(fiber);
}

static size_t count_words(VALUE fiber)
{
    return malloc_usable_size(words_of(fiber)) / sizeof(unsigned);
}

/* @!visibility private
 * @return [Boolean] whether Native.blocking can be used */
static VALUE rb_nb_native_find_blocking(VALUE mod)
{
    VALUE one = new_fiber(Qfalse), other = new_fiber(Qtrue);
    unsigned *words = words_of(one), *others = words_of(other);
    size_t found = 0;
    for (size_t i = 0; i < count_words(one) && i < count_words(other); i++) {
        unsigned change = words[i] ^ others[i];
        if (!change || (change & (change - 1)) || !decides(&words[i], change, one))
            continue;
        found++;
        place = i;
        bit = change;
    }
    if (found != 1)
        bit = 0;
    RB_GC_GUARD(one);
    RB_GC_GUARD(other);
    return bit ? Qtrue : Qfalse;
}

/* ---- in a block ---------------------------------------------------------------------------- */

static VALUE change_bit(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, fiber))
{
    words_of(fiber)[place] ^= bit;
    return Qnil;
}

static VALUE change(VALUE fiber)
{
    return rb_fiber_resume(rb_fiber_new(change_bit, fiber), 0, NULL);
}

static VALUE yield_blocking(VALUE fiber)
{
    change(fiber);
    return rb_yield(Qundef);
}

static VALUE end_blocking(VALUE fiber)
{
    int struck = 0;
    for (int i = 0; i < TRIES && is_blocking(fiber); i++) {
        int state;
        rb_protect(change, fiber, &state);
        struck = state ? state : struck;
    }
    if (struck)
        rb_jump_tag(struck);
    return Qnil;
}

/* @!visibility private - yields; meanwhile the current fiber is a blocking one. */
static VALUE rb_nb_native_blocking(VALUE mod)
{
    VALUE fiber = rb_fiber_current();
    if (is_blocking(fiber))
        return rb_yield(Qundef);
    return rb_ensure(yield_blocking, fiber, end_blocking, fiber);
}
#else
/* @!visibility private */
static VALUE rb_nb_native_find_blocking(VALUE mod)
{
    return Qfalse;
}

/* @!visibility private */
static VALUE rb_nb_native_blocking(VALUE mod)
{
    return rb_funcall_passing_block(rb_path2class("Fiber"), rb_intern("blocking"), 0, NULL);
}
#endif

void Init_nb_hooks_fiber_blocking(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "find_blocking", rb_nb_native_find_blocking, 0);
    rb_ext_ractor_safe(true); /* each fiber changes only itself */
    rb_define_singleton_method(mNative, "blocking", rb_nb_native_blocking, 0);
    rb_ext_ractor_safe(false);
}
