/* suspended_timer.c - deadlines that pass while their fiber is suspended. Uses ruby.h. Read after:
 * suspended_timer.h.
 */
#include "loop/suspended_timer.h"

static ID id_suspended_timer(void)
{
    static ID id;
    if (!id)
        id = rb_intern("neverblock_suspended_timer"); /* no name that Ruby code could use */
    return id;
}

static nb_suspended_timer_t *first_of(VALUE fiber)
{
    VALUE first = rb_attr_get(fiber, id_suspended_timer());
    return NIL_P(first) ? NULL : (nb_suspended_timer_t *)NUM2ULL(first);
}

static void set_first(VALUE fiber, nb_suspended_timer_t *suspended)
{
    rb_ivar_set(fiber, id_suspended_timer(), suspended ? ULL2NUM((uintptr_t)suspended) : Qnil);
}

bool nb_suspended_timer_begin(nb_suspended_timer_t *suspended, VALUE fiber)
{
    if (OBJ_FROZEN(fiber))
        return false;
    nb_suspended_timer_t *last = first_of(fiber);
    while (last && last->next)
        last = last->next;
    suspended->next = NULL;
    if (last)
        last->next = suspended;
    else
        set_first(fiber, suspended);
    suspended->linked = true;
    suspended->loop->suspended_timers++;
    RB_GC_GUARD(fiber);
    return true;
}

void nb_suspended_timer_end(nb_suspended_timer_t *suspended, VALUE fiber)
{
    if (!suspended->linked)
        return;
    nb_suspended_timer_t *before = first_of(fiber);
    if (before == suspended) {
        set_first(fiber, suspended->next);
    } else {
        while (before->next != suspended)
            before = before->next;
        before->next = suspended->next;
    }
    suspended->linked = false;
    suspended->loop->suspended_timers--;
}

int nb_suspended_timers_take(nb_loop_t *loop, VALUE fiber)
{
    int result = 0;
    nb_suspended_timer_t *suspended = first_of(fiber), *next;
    for (; suspended && !result; suspended = next) {
        next = suspended->next;
        if (suspended->loop != loop)
            continue;
        nb_suspended_timer_end(suspended, fiber);
        suspended->timer->when_ns = nb_loop_clock(loop);
        result = nb_timers_add(&loop->timers, suspended->timer);
    }
    return result;
}
