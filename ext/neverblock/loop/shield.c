/* shield.c - sections of a fiber during which nothing is raised in it from outside. Uses ruby.h.
 * Read after: shield.h. */
#include "loop/shield.h"
#include "base/clock.h"
#include "loop/resume_chain.h"

unsigned nb_shield_depth(const nb_loop_t *loop, VALUE fiber)
{
    const nb_shield_t *shield = nb_ptrmap_get(&loop->shields, fiber);
    return shield ? shield->depth : 0;
}

/* The outermost shield: when it ends or opens, what it held is checked against the next one. */
static nb_shield_t *since(const nb_loop_t *loop, VALUE fiber, unsigned depth)
{
    nb_shield_t *found = NULL, *shield = nb_ptrmap_get(&loop->shields, fiber);
    for (; shield && shield->depth > depth; shield = shield->outer)
        if (!shield->open)
            found = shield;
    return found;
}

/* The shield of one of the fibers that this one and then others have resumed. */
static nb_shield_t *resumed_holder(const nb_loop_t *loop, VALUE fiber)
{
    nb_shield_t *shield = NULL;
    for (size_t i = 0; !shield && i <= loop->shields.mask; i++) {
        VALUE other = loop->shields.slots[i].key;
        if (loop->shields.slots[i].value && nb_resume_chain_reaches(fiber, other))
            shield = since(loop, other, 0);
    }
    return shield;
}

/* The fiber may have resumed another one, such as an Enumerator's, which waits in its own
 * shield. */
static nb_shield_t *holder(nb_loop_t *loop, VALUE fiber, unsigned depth)
{
    if (!loop->shields.count)
        return NULL;
    nb_shield_t *shield = since(loop, fiber, depth);
    if (!shield)
        shield = resumed_holder(loop, fiber);
    nb_park_t *park = shield ? NULL : nb_park_of(loop, fiber);
    return park && park->fiber != fiber ? since(loop, park->fiber, 0) : shield;
}

bool nb_shielded(nb_loop_t *loop, VALUE fiber, unsigned depth)
{
    return holder(loop, fiber, depth) != NULL;
}

void nb_shield_start_limit(nb_shield_t *shield)
{
    nb_loop_t *loop = shield->loop;
    if (shield->limit_ns == NB_NEVER || shield->timer.index != NB_TIMER_IDLE)
        return;
    shield->timer.when_ns = nb_loop_clock(loop) + shield->limit_ns;
    if (nb_timers_add(&loop->timers, &shield->timer) < 0)
        rb_memerror();
    nb_loop_wakeup(loop);
}

bool nb_shield_hold(nb_loop_t *loop, VALUE fiber, unsigned depth, nb_held_t *held)
{
    nb_shield_t *shield = holder(loop, fiber, depth);
    if (!shield)
        return false;
    nb_list_append(&shield->held, &held->link);
    nb_shield_start_limit(shield);
    return true;
}

void nb_shield_add(nb_shield_t *shield, VALUE fiber, VALUE exception, unsigned depth)
{
    if (!shield->kept)
        shield->kept = rb_ary_new();
    rb_ary_push(shield->kept, rb_ary_new_from_args(3, fiber, exception, UINT2NUM(depth)));
    nb_shield_start_limit(shield);
}

bool nb_shield_keep(nb_loop_t *loop, VALUE fiber, VALUE exception, unsigned depth)
{
    nb_shield_t *shield = holder(loop, fiber, depth);
    if (!shield || RTEST(rb_obj_is_kind_of(exception, rb_eIOError)))
        return false;
    nb_shield_add(shield, fiber, exception, depth);
    return true;
}

void nb_shields_mark(const nb_loop_t *loop)
{
    for (size_t i = 0; loop->shields.slots && i <= loop->shields.mask; i++)
        if (loop->shields.slots[i].key)
            rb_gc_mark((VALUE)loop->shields.slots[i].key);
}

int nb_shields_after_fork(nb_loop_t *loop, VALUE fiber)
{
    nb_shield_t *own = nb_ptrmap_get(&loop->shields, fiber);
    nb_ptrmap_free(&loop->shields);
    for (nb_shield_t *shield = own; shield; shield = shield->outer)
        nb_list_init(&shield->held); /* with their timers, which are forgotten too */
    return own ? nb_ptrmap_add(&loop->shields, fiber, own) : 0;
}
