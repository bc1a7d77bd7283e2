/* matches.c - $~, $1 and $_ of each fiber. Uses ruby.h. Read after: hooks.h.
 *
 * They belong to a method's frame, and the blocks of a method share them. But of a thread's own
 * block, and of a fiber's, Ruby keeps them with that thread or fiber, so the blocks of several do
 * not see each other's. Our fibers begin in C and call the block: here Ruby is told that it is the
 * fiber's own.
 *
 * Ruby has no call for it, and its structs are private. So a fiber that Ruby has begun with a block
 * shows where in its struct the frame of that block is, and that what it matches is kept in the
 * next word. If that shows anything unexpected, the place stays unknown, and blocks share as
 * before.
 */
#include "hooks/hooks.h"

#ifdef __GLIBC__
#include <malloc.h>

#define DEEPEST 64  /* blocks within blocks */
#define TYPE_AT 3   /* words of a Proc's struct: self, environment, code, type */
#define LOCAL 0x2   /* of the flags of an environment: it is a method's */
#define PARENT_AT 1 /* words before the flags */

static size_t place; /* in words from the begin of a fiber's struct; 0: not known */

/* Where the method around the block has its variables; NULL: it is no block of Ruby code. */
static const VALUE *frame_of(VALUE block)
{
    VALUE *words = RTYPEDDATA_DATA(block);
    const VALUE *frame = (int)words[TYPE_AT] ? NULL : (const VALUE *)words[1];
    for (int i = 0; frame && !(frame[0] & LOCAL); i++)
        frame = i < DEEPEST ? (const VALUE *)(frame[-PARENT_AT] & ~(VALUE)3) : NULL;
    return frame;
}

static VALUE *words_of_current(void)
{
    return RTYPEDDATA_DATA(rb_fiber_current());
}

void nb_own_matches(VALUE block)
{
    const VALUE *frame = place && rb_obj_is_proc(block) == Qtrue ? frame_of(block) : NULL;
    if (!frame)
        return;
    VALUE *words = words_of_current();
    words[place] = (VALUE)frame;
    words[place + 1] = Qfalse;
}

/* ---- where it is --------------------------------------------------------------------------- */

static struct {
    const VALUE *frame;
    size_t place; /* 0: no word has it, or more than one */
} probe;

static VALUE begin_probe(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    const VALUE *words = words_of_current();
    size_t count = malloc_usable_size((void *)words) / sizeof(*words), found = 0, times = 0;
    for (size_t i = 1; i + 1 < count; i++)
        if (words[i] == (VALUE)probe.frame) {
            found = i;
            times++;
        }
    probe.place = times == 1 && words[found + 1] == Qfalse ? found : 0;
    return Qnil;
}

static bool is_embedded(VALUE object)
{
#ifdef TYPED_DATA_EMBEDDED /* Ruby 3.3 */
    return RTYPEDDATA_EMBEDDED_P(object);
#else
    (void)object;
    return false;
#endif
}

/* @!visibility private - the block matches something between two calls of what it is given: a Proc
 *   within blocks of a method. */
static VALUE rb_nb_native_find_matches(VALUE mod)
{
    VALUE block = rb_block_proc(), begin = rb_proc_new(begin_probe, Qnil);
    VALUE fiber = rb_funcall_with_block(rb_path2class("Fiber"), rb_intern("new"), 0, NULL, block);
    if (is_embedded(block) || is_embedded(fiber) || !frame_of(block) || frame_of(begin))
        return Qfalse;
    probe.frame = frame_of(block);
    rb_fiber_resume(fiber, 1, &begin); /* it yields after its match */
    const VALUE *words = RTYPEDDATA_DATA(fiber);
    if (probe.place && words[probe.place] == (VALUE)probe.frame &&
        !SPECIAL_CONST_P(words[probe.place + 1]))
        place = probe.place;
    rb_fiber_resume(fiber, 0, NULL);
    RB_GC_GUARD(fiber);
    return place ? Qtrue : Qfalse;
}
#else
void nb_own_matches(VALUE block)
{
    (void)block;
}

/* @!visibility private */
static VALUE rb_nb_native_find_matches(VALUE mod)
{
    return Qfalse;
}
#endif

/* @!visibility private - from now on $~ and $_ in the block, a Proc or anything else that is
 * called, are the current fiber's. */
static VALUE rb_nb_scheduler_own_matches(VALUE self, VALUE block)
{
    nb_own_matches(block);
    return block;
}

void Init_nb_hooks_matches(VALUE cScheduler)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "find_matches",
                               rb_nb_native_find_matches, 0);
    rb_define_method(cScheduler, "own_matches", rb_nb_scheduler_own_matches, 1);
}
