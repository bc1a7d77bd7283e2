/* fork_mutexes.c - mutexes that the parent's fibers want or hold, in a forked child. Uses ruby.h.
 * Read after: fork_mutexes.h, wait.h. */
#include "loop/fork_mutexes.h"
#include "loop/wait.h"

/* ---- who they are ---------------------------------------------------------------------------- */

static bool is_mutex(VALUE blocker)
{
    return blocker && !SPECIAL_CONST_P(blocker) && RBASIC_CLASS(blocker) &&
           RTEST(rb_obj_is_kind_of(blocker, rb_path2class("Thread::Mutex")));
}

/* heirs: the fiber that has resumed the heir, or the heir. What that one holds stays locked in the
 * child, as in plain Ruby. */
static void note(nb_fork_mutexes_t *mutexes, const nb_park_t *park, VALUE heirs)
{
    if (!park || park->fiber == mutexes->heir)
        return;
    if (park->owner != park->fiber && park->owner != heirs)
        rb_ary_push(mutexes->resuming, park->owner);
    if (park->kind != NB_PARK_START && !park->handed_over) /* it has stopped in nb_park */
        rb_ary_push(mutexes->fibers, park->fiber);
    for (; park; park = park->outer)
        if (park->kind == NB_PARK_BLOCK && is_mutex(park->blocker)) {
            rb_ary_push(mutexes->waiting, park->fiber);
            rb_ary_push(mutexes->wanted, park->blocker);
        }
}

void nb_fork_mutexes_note(const nb_loop_t *loop, VALUE heir, nb_fork_mutexes_t *mutexes)
{
    *mutexes = (nb_fork_mutexes_t){.heir = heir,
                                   .fibers = rb_ary_new(),
                                   .resuming = rb_ary_new(),
                                   .waiting = rb_ary_new(),
                                   .wanted = rb_ary_new(),
                                   .held = rb_ary_new(),
                                   .raised = Qnil};
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++)
        note(mutexes, loop->parked.slots[i].value, loop->current ? loop->current : heir);
}

/* ---- what they hold -------------------------------------------------------------------------- */

static bool is_owned(VALUE mutex)
{
    return RTEST(rb_funcall(mutex, rb_intern("owned?"), 0));
}

static VALUE keep_if_held(RB_BLOCK_CALL_FUNC_ARGLIST(mutex, held))
{
    if (RTEST(rb_mutex_locked_p(mutex)) && !is_owned(mutex))
        rb_ary_push(held, mutex);
    return Qnil;
}

static VALUE unlock_own(VALUE held)
{
    for (long i = 0; i < RARRAY_LEN(held); i++)
        if (is_owned(RARRAY_AREF(held, i)))
            rb_mutex_unlock(RARRAY_AREF(held, i));
    return Qnil;
}

/* Runs in such a fiber: unlocks, and does not return. error: what was raised in it, or nil. */
static void unlock_and_leave(nb_loop_t *loop, VALUE error)
{
    nb_fork_mutexes_t *mutexes = loop->fork_mutexes;
    int tag = 0;
    if (error != Qnil)
        mutexes->raised = error;
    rb_protect(unlock_own, mutexes->held, &tag);
    rb_fiber_transfer(mutexes->heir, 0, NULL);
}

/* Ruby has no call for it, and its structs are private: a mutex begins with a pointer to the struct
 * of the fiber that has locked it (up to Ruby 3.4). */
static void **holder_of(VALUE mutex)
{
    return RTYPEDDATA_DATA(mutex);
}

static void *struct_of(VALUE fiber)
{
    return RTYPEDDATA_DATA(fiber);
}

/* Whether a mutex that the heir locks and unlocks is as that comment says. */
static bool begins_with_holder(VALUE heir)
{
    VALUE mutex = rb_mutex_new();
    bool before = !*holder_of(mutex), locked = RTEST(rb_mutex_trylock(mutex)),
         meanwhile = *holder_of(mutex) == struct_of(heir);
    rb_mutex_unlock(mutex);
    return before && locked && meanwhile && !*holder_of(mutex);
}

static void unlock_of(VALUE resuming, VALUE heir, VALUE held)
{
    for (long i = 0; i < RARRAY_LEN(held); i++) {
        VALUE mutex = RARRAY_AREF(held, i);
        if (*holder_of(mutex) != struct_of(resuming))
            continue;
        *holder_of(mutex) = struct_of(heir);
        rb_mutex_unlock(mutex);
    }
}

static void unlock_of_resuming(const nb_fork_mutexes_t *mutexes)
{
    if (!RARRAY_LEN(mutexes->resuming) || !RARRAY_LEN(mutexes->held) ||
        !begins_with_holder(mutexes->heir))
        return;
    for (long i = 0; i < RARRAY_LEN(mutexes->resuming); i++)
        unlock_of(RARRAY_AREF(mutexes->resuming, i), mutexes->heir, mutexes->held);
}

static void unlock_held(nb_loop_t *loop, nb_fork_mutexes_t *mutexes)
{
    VALUE mutex = rb_path2class("Thread::Mutex");
    if (RARRAY_LEN(mutexes->fibers))
        rb_block_call(rb_path2class("ObjectSpace"), rb_intern("each_object"), 1, &mutex,
                      keep_if_held, mutexes->held);
    loop->unlock = unlock_and_leave;
    for (long i = 0; RARRAY_LEN(mutexes->held) && i < RARRAY_LEN(mutexes->fibers); i++)
        rb_fiber_transfer(RARRAY_AREF(mutexes->fibers, i), 0, NULL);
    loop->unlock = NULL;
    unlock_of_resuming(mutexes);
}

/* ---- what they wait for ---------------------------------------------------------------------- */

/* Unlocking takes the first waiter off the mutex's list. The heir keeps what it has locked. */
static bool strike_off_first(VALUE mutex)
{
    bool owned = is_owned(mutex);
    if (!owned && !RTEST(rb_mutex_trylock(mutex)))
        return false;
    rb_mutex_unlock(mutex);
    return !owned || RTEST(rb_mutex_trylock(mutex));
}

/* The list lies on their stacks: a fiber that cannot be taken off must never be collected. */
static void strike_off(nb_loop_t *loop, const nb_fork_mutexes_t *mutexes)
{
    for (long i = 0; i < RARRAY_LEN(mutexes->wanted); i++) {
        if (strike_off_first(RARRAY_AREF(mutexes->wanted, i)))
            continue;
        if (!loop->never_freed)
            loop->never_freed = rb_ary_new();
        rb_ary_push(loop->never_freed, RARRAY_AREF(mutexes->waiting, i));
    }
}

void nb_fork_mutexes_release(nb_loop_t *loop, nb_fork_mutexes_t *mutexes)
{
    loop->fork_mutexes = mutexes;
    unlock_held(loop, mutexes);
    strike_off(loop, mutexes);
    loop->fork_mutexes = NULL;
    if (mutexes->raised != Qnil)
        rb_exc_raise(mutexes->raised);
}
