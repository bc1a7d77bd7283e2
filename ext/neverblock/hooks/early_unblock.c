/* early_unblock.c - an unblock that comes before its block. Uses ruby.h. Read after:
 * early_unblock.h. */
#include "hooks/early_unblock.h"

static VALUE cMutex, cQueue;

bool nb_is_hidden(VALUE blocker)
{
    return !SPECIAL_CONST_P(blocker) && !RBASIC_CLASS(blocker);
}

bool nb_is_mutex(VALUE blocker)
{
    return RTEST(rb_obj_is_kind_of(blocker, cMutex));
}

bool nb_is_lock_or_queue(VALUE blocker)
{
    if (nb_is_hidden(blocker))
        return true;
    return nb_is_mutex(blocker) || RTEST(rb_obj_is_kind_of(blocker, cQueue));
}

static bool is_thread(VALUE blocker)
{
    return !nb_is_hidden(blocker) && RTEST(rb_obj_is_kind_of(blocker, rb_cThread));
}

static int forget_ended(VALUE fiber, VALUE blockers, VALUE unused)
{
    return RTEST(rb_fiber_alive_p(fiber)) ? ST_CONTINUE : ST_DELETE;
}

void nb_early_unblock_note(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    if (!RTEST(rb_fiber_alive_p(fiber)))
        return;
    VALUE blockers = rb_hash_aref(loop->early_unblocks, fiber);
    if (NIL_P(blockers)) {
        rb_hash_foreach(loop->early_unblocks, forget_ended, Qnil);
        rb_hash_aset(loop->early_unblocks, fiber, blockers = rb_ary_new());
    }
    for (long i = 0; i < RARRAY_LEN(blockers); i++)
        if (RARRAY_AREF(blockers, i) == blocker)
            return;
    rb_ary_push(blockers, blocker);
}

/* Thread#join is unblocked in the name of the waiting thread; which thread has ended tells whether
 * this wait is meant. */
static bool is_for(VALUE noted, VALUE blocker)
{
    return noted == blocker || (is_thread(noted) && is_thread(blocker) &&
                                !RTEST(rb_funcall(blocker, rb_intern("alive?"), 0)));
}

static bool take(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    VALUE blockers = rb_hash_aref(loop->early_unblocks, fiber);
    for (long i = 0; !NIL_P(blockers) && i < RARRAY_LEN(blockers); i++)
        if (is_for(RARRAY_AREF(blockers, i), blocker)) {
            rb_ary_delete_at(blockers, i);
            if (!RARRAY_LEN(blockers))
                rb_hash_delete(loop->early_unblocks, fiber);
            return true;
        }
    return false;
}

bool nb_early_unblock_take(nb_park_t *park)
{
    return park->blocker && take(park->loop, park->fiber, park->blocker);
}

void nb_early_unblock_forget(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    if (RHASH_SIZE(loop->early_unblocks))
        take(loop, fiber, blocker);
}

void nb_early_unblock_mutex(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    VALUE mutex = (VALUE)nb_ptrmap_get(&loop->mutex_sleeps, park->fiber);
    if (!mutex ||
        (park->blocker && (nb_is_lock_or_queue(park->blocker) || is_thread(park->blocker))))
        return;
    nb_ptrmap_remove(&loop->mutex_sleeps, park->fiber);
    park->blocker = mutex;
}

void Init_nb_hooks_early_unblock(void)
{
    cMutex = rb_path2class("Thread::Mutex");
    cQueue = rb_path2class("Thread::Queue");
}
