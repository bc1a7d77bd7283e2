/* resume_chain.c - fibers that have resumed each other, and the last of them. Uses ruby.h.
 * Read after: resume_chain.h.
 *
 * Ruby's structs are private. So a fiber that resumes another shows where in its struct the pointer
 * to the other one is. If that shows anything unexpected, the place stays unknown.
 */
#include "loop/resume_chain.h"
#include <stddef.h>

#ifdef __GLIBC__
#include <malloc.h>

static size_t place; /* in words from the begin of a fiber's struct; 0: not known */

static void **words_of(VALUE fiber)
{
    return RTYPEDDATA_DATA(fiber);
}

static void **next(void **fiber)
{
    return place ? fiber[place] : NULL;
}

const void *nb_resume_chain_end(VALUE fiber)
{
    void **end = next(words_of(fiber)), **after = end;
    for (; after; after = next(after))
        end = after;
    return end;
}

bool nb_resume_chain_reaches(VALUE fiber, VALUE other)
{
    void **found = next(words_of(fiber));
    while (found && found != words_of(other))
        found = next(found);
    return found != NULL;
}

bool nb_resume_chain_leads(VALUE fiber, nb_resume_chain_between_t between, VALUE last)
{
    bool found = false;
    void **one = words_of(fiber);
    for (; one && one != words_of(last); one = next(one))
        found = found || between.is(one, between.argument);
    return found && one;
}

/* ---- a fiber that is killed ---------------------------------------------------------------- */

static uint32_t killed; /* one bit of the flags behind that pointer; 0: not known */

static uint32_t *flags_of(VALUE fiber)
{
    return (uint32_t *)(words_of(fiber) + place + 1);
}

void nb_resume_chain_let_end(VALUE fiber)
{
    if (killed)
        *flags_of(fiber) &= ~killed;
}

typedef struct {
    VALUE fiber;
    uint32_t before, after;
} nb_kill_t;

static VALUE await_kill(VALUE unused)
{
    return rb_fiber_yield(0, NULL);
}

static VALUE note_flags(VALUE argument)
{
    nb_kill_t *kill = (nb_kill_t *)argument;
    kill->after = *flags_of(kill->fiber);
    return Qnil;
}

static VALUE run_killed(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    nb_kill_t *kill = (nb_kill_t *)argument;
    kill->before = *flags_of(kill->fiber);
    return rb_ensure(await_kill, Qnil, note_flags, argument);
}

static void find_killed(void)
{
    nb_kill_t kill = {0};
    ID method = rb_intern("kill"); /* Ruby 3.3 */
    kill.fiber = rb_fiber_new(run_killed, (VALUE)&kill);
    if (!place || !rb_respond_to(kill.fiber, method))
        return;
    rb_fiber_resume(kill.fiber, 0, NULL);
    rb_funcall(kill.fiber, method, 0);
    uint32_t bit = kill.before ^ kill.after;
    if (bit && !(bit & (bit - 1)) && (kill.after & bit))
        killed = bit;
    RB_GC_GUARD(kill.fiber);
}

/* ---- where it is --------------------------------------------------------------------------- */

typedef struct {
    VALUE outer, inner;
    size_t first, second;
} nb_probe_t;

/* The one word of outer that points to inner; 0: none, or more than one. */
static size_t find(const nb_probe_t *probe)
{
    void **words = words_of(probe->outer);
    size_t count = malloc_usable_size(words) / sizeof(*words), found = 0;
    for (size_t i = 1; i < count; i++) {
        if (words[i] != words_of(probe->inner))
            continue;
        if (found)
            return 0;
        found = i;
    }
    return found;
}

static VALUE run_inner(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    nb_probe_t *probe = (nb_probe_t *)argument;
    probe->first = find(probe);
    rb_fiber_yield(0, NULL);
    probe->second = find(probe);
    return Qnil;
}

static VALUE run_outer(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    nb_probe_t *probe = (nb_probe_t *)argument;
    void **words = words_of(probe->outer);
    rb_fiber_resume(probe->inner, 0, NULL);
    bool gone = probe->first && !words[probe->first];
    rb_fiber_resume(probe->inner, 0, NULL);
    if (gone && probe->first == probe->second && !words[probe->first])
        place = probe->first;
    return Qnil;
}

/* A struct within its object would be no memory of malloc's. */
static bool has_struct_of_its_own(VALUE fiber)
{
#ifdef TYPED_DATA_EMBEDDED /* Ruby 3.3 */
    if (RTYPEDDATA_EMBEDDED_P(fiber))
        return false;
#endif
    return RTYPEDDATA_P(fiber);
}

void nb_resume_chain_init(void)
{
    nb_probe_t probe = {0};
    probe.outer = rb_fiber_new(run_outer, (VALUE)&probe);
    probe.inner = rb_fiber_new(run_inner, (VALUE)&probe);
    if (has_struct_of_its_own(probe.outer) && has_struct_of_its_own(probe.inner))
        rb_fiber_resume(probe.outer, 0, NULL);
    RB_GC_GUARD(probe.outer);
    RB_GC_GUARD(probe.inner);
    find_killed();
}
#else
void nb_resume_chain_init(void) {}

const void *nb_resume_chain_end(VALUE fiber)
{
    (void)fiber;
    return NULL;
}

bool nb_resume_chain_reaches(VALUE fiber, VALUE other)
{
    (void)fiber, (void)other;
    return false;
}

bool nb_resume_chain_leads(VALUE fiber, nb_resume_chain_between_t between, VALUE last)
{
    (void)fiber, (void)between, (void)last;
    return false;
}

void nb_resume_chain_let_end(VALUE fiber)
{
    (void)fiber;
}
#endif
