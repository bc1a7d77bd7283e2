/* orphan.c - mutexes that fibers of the parent wait for, or hold, in a forked child. Uses ruby.h.
 * Read after: orphan.h, wait.h. */
#include "loop/orphan.h"
#include "loop/wait.h"

/* ---- who waits for one ----------------------------------------------------------------------- */

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
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (!park || park->fiber == fiber || !awaits_mutex(park))
            continue;
        if (!loop->orphans) {
            loop->orphans = rb_funcall(rb_hash_new(), rb_intern("compare_by_identity"), 0);
            loop->passed_on = rb_ary_new();
            nb_list_init(&loop->pass_on.link);
            loop->pass_on.call = pass_on;
        }
        rb_hash_aset(loop->orphans, park->fiber, Qtrue);
    }
}

static void pass_on_soon(nb_loop_t *loop)
{
    nb_loop_before_poll(loop, &loop->pass_on);
    nb_loop_wakeup(loop);
}

bool nb_orphan_unblocked(nb_loop_t *loop, VALUE fiber, VALUE blocker)
{
    if (!loop->orphans || !is_mutex(blocker) || !RTEST(rb_hash_aref(loop->orphans, fiber)))
        return false;
    rb_ary_push(loop->passed_on, blocker);
    pass_on_soon(loop);
    return true;
}

/* ---- who holds one --------------------------------------------------------------------------- */

/* While fibers of the parent are entered to unlock what they hold. */
typedef struct nb_release {
    VALUE heir; /* the fiber that forked */
    VALUE mutexes;
    VALUE raised; /* in one of them: a signal that came meanwhile */
} nb_release_t;

/* Only one that has stopped in nb_park: that is where it notices why it was entered. */
static bool may_enter(const nb_park_t *park, VALUE heir)
{
    return park && park->fiber != heir && park->kind != NB_PARK_START && !park->handed_over;
}

VALUE nb_orphans_of(const nb_loop_t *loop, VALUE heir)
{
    VALUE fibers = rb_ary_new();
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (may_enter(park, heir))
            rb_ary_push(fibers, park->fiber);
    }
    return fibers;
}

static bool is_owned(VALUE mutex)
{
    return RTEST(rb_funcall(mutex, rb_intern("owned?"), 0));
}

static VALUE keep_if_held(RB_BLOCK_CALL_FUNC_ARGLIST(mutex, mutexes))
{
    if (RTEST(rb_mutex_locked_p(mutex)) && !is_owned(mutex))
        rb_ary_push(mutexes, mutex);
    return Qnil;
}

static VALUE unlock_own(VALUE mutexes)
{
    for (long i = 0; i < RARRAY_LEN(mutexes); i++)
        if (is_owned(RARRAY_AREF(mutexes, i)))
            rb_mutex_unlock(RARRAY_AREF(mutexes, i));
    return Qnil;
}

/* In such a fiber: unlocks, and does not return. error: what was raised in it, or nil. */
static void unlock_and_leave(nb_loop_t *loop, VALUE error)
{
    nb_release_t *release = loop->release;
    int tag = 0;
    if (error != Qnil)
        release->raised = error;
    rb_protect(unlock_own, release->mutexes, &tag);
    rb_fiber_transfer(release->heir, 0, NULL);
}

void nb_orphans_release(nb_loop_t *loop, VALUE heir, VALUE fibers)
{
    VALUE mutexes = rb_ary_new(), mutex = rb_path2class("Thread::Mutex");
    nb_release_t release = {heir, mutexes, Qnil};
    if (loop->orphans && RARRAY_LEN(loop->passed_on))
        pass_on_soon(loop); /* what a child owed that forked this one */
    if (RARRAY_LEN(fibers))
        rb_block_call(rb_path2class("ObjectSpace"), rb_intern("each_object"), 1, &mutex,
                      keep_if_held, mutexes);
    if (!RARRAY_LEN(mutexes))
        return;
    loop->release = &release;
    loop->unlock = unlock_and_leave;
    for (long i = 0; i < RARRAY_LEN(fibers); i++)
        rb_fiber_transfer(RARRAY_AREF(fibers, i), 0, NULL);
    loop->release = NULL;
    loop->unlock = NULL;
    RB_GC_GUARD(mutexes);
    if (release.raised != Qnil)
        rb_exc_raise(release.raised);
}
