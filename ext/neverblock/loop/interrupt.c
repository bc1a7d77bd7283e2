/* interrupt.c - exceptions that others give a fiber: now, or at its next wait. Uses ruby.h.
 * Read after: wait.h. */
#include "loop/shield.h"

/* Exceptions for a fiber that cannot be raised in now, in order: none replaces another. */
static VALUE deferred_of(nb_loop_t *loop, VALUE fiber)
{
    VALUE queue = rb_hash_aref(loop->deferred, fiber);
    if (NIL_P(queue))
        rb_hash_aset(loop->deferred, fiber, queue = rb_ary_new());
    return queue;
}

void nb_defer(nb_loop_t *loop, VALUE fiber, VALUE exception)
{
    rb_ary_push(deferred_of(loop, fiber), exception);
}

VALUE nb_take_deferred(nb_loop_t *loop, VALUE fiber)
{
    VALUE queue = rb_hash_aref(loop->deferred, fiber);
    if (NIL_P(queue))
        return Qnil;
    VALUE exception = rb_ary_shift(queue);
    if (!RARRAY_LEN(queue))
        rb_hash_delete(loop->deferred, fiber);
    return exception;
}

bool nb_is_exception(VALUE caught)
{
    return !SPECIAL_CONST_P(caught) && RB_BUILTIN_TYPE(caught) == T_OBJECT &&
           RTEST(rb_obj_is_kind_of(caught, rb_eException));
}

/* In Thread#join, which every joiner is told to leave when the thread ends. Whatever the thread has
 * raised in its joiner before that comes out of the join, as without a loop. */
static bool waits_for_thread(const nb_park_t *park)
{
    VALUE blocker = park->blocker;
    return park->kind == NB_PARK_BLOCK && blocker && !SPECIAL_CONST_P(blocker) &&
           RBASIC_CLASS(blocker) && RTEST(rb_obj_is_kind_of(blocker, rb_cThread));
}

/* Mutex, Queue and ConditionVariable wake one of several waiters and forget it. If that one raised
 * instead of taking what it was woken for, the others would wait forever. So once a waiter is
 * unblocked, an exception for it is raised only at its next wait. */
static bool was_unblocked(const nb_park_t *park)
{
    return (park->kind == NB_PARK_BLOCK || park->kind == NB_PARK_SLEEP) &&
           park->state == NB_READY && park->reason == NB_WOKEN;
}

bool nb_park_may_raise(const nb_park_t *park)
{
    return !nb_park_raises(park) && !was_unblocked(park) && park->kind != NB_PARK_SPAWN;
}

void nb_unblock(nb_park_t *park)
{
    nb_wake(park, NB_WOKEN);
    if (park->exception != Qundef && waits_for_thread(park))
        return;
    if (nb_park_raises(park))
        nb_put_off(park);
    park->reason = NB_WOKEN;
}

void nb_put_off(nb_park_t *park)
{
    if (park->exception != Qundef)
        rb_ary_unshift(deferred_of(park->loop, park->fiber), park->exception);
    if (park->raise)
        park->put_off(park->raise_data);
    park->exception = Qundef;
    park->raise = NULL;
}

void nb_interrupt(nb_loop_t *loop, VALUE fiber, VALUE exception)
{
    nb_interrupt_at(loop, fiber, exception, 0);
}

void nb_interrupt_at(nb_loop_t *loop, VALUE fiber, VALUE exception, unsigned depth)
{
    if (loop->shields.count && nb_shield_keep(loop, fiber, exception, depth))
        return;
    nb_park_t *park = nb_park_of(loop, fiber);
    loop->counters.cancels++;
    if (park && (nb_park_may_raise(park) || (!nb_park_raises(park) && waits_for_thread(park)))) {
        park->exception = exception;
        nb_wake(park, NB_WOKEN_BY_EXCEPTION);
    } else if (RTEST(rb_fiber_alive_p(fiber))) {
        nb_defer(loop, fiber, exception);
    }
}

void nb_raise(VALUE given)
{
    if (RB_TYPE_P(given, T_ARRAY))
        rb_throw_obj(RARRAY_AREF(given, 0), RARRAY_AREF(given, 1));
    rb_exc_raise(given);
}

void nb_forget_interrupts(nb_loop_t *loop)
{
    if (RHASH_SIZE(loop->deferred))
        rb_hash_delete(loop->deferred, rb_fiber_current());
}

static VALUE check_interrupts(RB_BLOCK_CALL_FUNC_ARGLIST(value, data))
{
    rb_thread_check_ints();
    return Qnil;
}

VALUE nb_take_interrupts(VALUE data)
{
    VALUE mask = rb_hash_new();
    rb_hash_aset(mask, rb_cObject, ID2SYM(rb_intern("immediate")));
    rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, check_interrupts, Qnil);
    return data;
}
