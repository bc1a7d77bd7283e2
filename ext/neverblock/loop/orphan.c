/* orphan.c - what a mutex in a forked child owes to fibers of the parent. Uses ruby.h.
 * Read after: orphan.h, wait.h. */
#include "loop/orphan.h"
#include "loop/wait.h"

static bool is_mutex(VALUE blocker)
{
    return blocker && !SPECIAL_CONST_P(blocker) && RBASIC_CLASS(blocker) &&
           RTEST(rb_obj_is_kind_of(blocker, rb_path2class("Thread::Mutex")));
}

static bool awaits_mutex(const nb_park_t *park)
{
    for (; park; park = park->outer)
        if (park->kind == NB_PARK_BLOCK && is_mutex(park->blocker))
            return true;
    return false;
}

/* Mutex#unlock is half done when it calls unblock: what it owes the next is done at the next turn.
 * Who has locked the mutex since will do it. */
static void pass_on(nb_hook_t *hook)
{
    nb_loop_t *loop = nb_container_of(hook, nb_loop_t, pass_on);
    VALUE mutexes = loop->passed_on;
    loop->passed_on = rb_ary_new();
    for (long i = 0; i < RARRAY_LEN(mutexes); i++)
        if (RTEST(rb_mutex_trylock(RARRAY_AREF(mutexes, i))))
            rb_mutex_unlock(RARRAY_AREF(mutexes, i));
    RB_GC_GUARD(mutexes);
}

void nb_orphans_note(nb_loop_t *loop, VALUE fiber)
{
    nb_list_init(&loop->pass_on.link);
    loop->pass_on.call = pass_on;
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (!park || park->fiber == fiber || !awaits_mutex(park))
            continue;
        if (!loop->orphans) {
            loop->orphans = rb_funcall(rb_hash_new(), rb_intern("compare_by_identity"), 0);
            loop->passed_on = rb_ary_new();
        }
        rb_hash_aset(loop->orphans, park->fiber, Qtrue);
    }
}

bool nb_orphan_unblocked(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    if (!loop->orphans || !is_mutex(blocker) || !RTEST(rb_hash_aref(loop->orphans, fiber)))
        return false;
    rb_ary_push(loop->passed_on, blocker);
    nb_loop_before_poll(loop, &loop->pass_on);
    nb_loop_wakeup(loop);
    return true;
}
