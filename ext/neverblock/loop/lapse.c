/* lapse.c - deadlines that pass while their fiber is suspended. Uses ruby.h. Read after: lapse.h.
 */
#include "loop/lapse.h"

static ID id_lapsed(void)
{
    static ID id;
    if (!id)
        id = rb_intern("neverblock_lapsed"); /* no name that Ruby code could use */
    return id;
}

static nb_lapse_t *first_of(VALUE fiber)
{
    VALUE first = rb_attr_get(fiber, id_lapsed());
    return NIL_P(first) ? NULL : (nb_lapse_t *)NUM2ULL(first);
}

static void set_first(VALUE fiber, nb_lapse_t *lapse)
{
    rb_ivar_set(fiber, id_lapsed(), lapse ? ULL2NUM((uintptr_t)lapse) : Qnil);
}

bool nb_lapse_begin(nb_lapse_t *lapse, VALUE fiber)
{
    if (OBJ_FROZEN(fiber))
        return false;
    nb_lapse_t *last = first_of(fiber);
    while (last && last->next)
        last = last->next;
    lapse->next = NULL;
    if (last)
        last->next = lapse;
    else
        set_first(fiber, lapse);
    lapse->linked = true;
    lapse->loop->lapsed++;
    RB_GC_GUARD(fiber);
    return true;
}

void nb_lapse_end(nb_lapse_t *lapse, VALUE fiber)
{
    if (!lapse->linked)
        return;
    nb_lapse_t *before = first_of(fiber);
    if (before == lapse) {
        set_first(fiber, lapse->next);
    } else {
        while (before->next != lapse)
            before = before->next;
        before->next = lapse->next;
    }
    lapse->linked = false;
    lapse->loop->lapsed--;
}

int nb_lapses_take(nb_loop_t *loop, VALUE fiber)
{
    int result = 0;
    nb_lapse_t *lapse = first_of(fiber), *next;
    for (; lapse && !result; lapse = next) {
        next = lapse->next;
        if (lapse->loop != loop)
            continue;
        nb_lapse_end(lapse, fiber);
        lapse->timer->when_ns = nb_loop_clock(loop);
        result = nb_timers_add(&loop->timers, lapse->timer);
    }
    return result;
}
