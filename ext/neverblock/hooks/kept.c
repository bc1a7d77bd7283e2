/* kept.c - a thread's list of mutexes, for the repairs mutex_unlock and mutex_end. Uses ruby.h.
 * Read after: kept.h, early.h.
 *
 * Ruby has no call for it, and its structs are private. So locking two mutexes shows where in the
 * struct of a thread the list's head is. If that shows anything unexpected, the repairs do nothing.
 */
#include "hooks/kept.h"
#include "hooks/early.h"
#include "hooks/hooks.h"

#if NB_KNOWS_KEPT
#include <malloc.h>

/* How rb_mutex_t begins in Ruby 3.1 to 3.4. */
typedef struct kept {
    void *fiber; /* that has locked it; NULL: unlocked */
    struct kept *next;
} kept_t;

static size_t head_place; /* in words from the begin of the thread's struct; 0: not known */
static bool drops, unlocks;

static kept_t *kept_of(VALUE mutex)
{
    return RTYPEDDATA_DATA(mutex);
}

static kept_t **words_of(VALUE thread)
{
    return RTYPEDDATA_DATA(thread);
}

static kept_t **head(void)
{
    return words_of(rb_thread_current()) + head_place;
}

/* ---- where it is --------------------------------------------------------------------------- */

/* The one word that points to the mutex which the current thread has locked last; 0: no word, or
 * more than one. */
static size_t find_head(const kept_t *mutex)
{
    kept_t **words = words_of(rb_thread_current());
    size_t count = malloc_usable_size(words) / sizeof(*words), found = 0;
    for (size_t i = 1; i < count; i++) {
        if (words[i] == mutex && found)
            return 0;
        if (words[i] == mutex)
            found = i;
    }
    return found;
}

/* Whether locking and unlocking another mutex changes that word as it must. */
static bool proves_right(kept_t **head, const kept_t *first, VALUE other)
{
    bool right = rb_mutex_trylock(other) && *head == kept_of(other) && (*head)->next == first;
    rb_mutex_unlock(other);
    return right && *head == first && first->fiber == RTYPEDDATA_DATA(rb_fiber_current());
}

static size_t find_place(VALUE first, VALUE other)
{
    if (!rb_mutex_trylock(first))
        return 0;
    size_t place = find_head(kept_of(first));
    kept_t **head = words_of(rb_thread_current()) + place;
    if (place && !proves_right(head, kept_of(first), other))
        place = 0;
    rb_mutex_unlock(first);
    return place && *head != kept_of(first) && !kept_of(first)->fiber ? place : 0;
}

static bool is_known(void)
{
    VALUE first = rb_mutex_new(), other = rb_mutex_new();
    if (!head_place)
        head_place = find_place(first, other);
    RB_GC_GUARD(first);
    RB_GC_GUARD(other);
    return head_place;
}

/* ---- of a mutex ---------------------------------------------------------------------------- */

void nb_kept_drop(VALUE blocker)
{
    if (!drops || nb_is_hidden(blocker) || !nb_is_mutex(blocker) || kept_of(blocker)->fiber)
        return;
    kept_t **at = head(), *mutex = kept_of(blocker);
    while (*at && *at != mutex)
        at = &(*at)->next;
    if (*at) {
        *at = mutex->next;
        mutex->next = NULL;
    }
}

const void *nb_kept_holder(VALUE blocker)
{
    bool known = drops || unlocks;
    return known && !nb_is_hidden(blocker) && nb_is_mutex(blocker) ? kept_of(blocker)->fiber : NULL;
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_unlock(VALUE mod)
{
    drops = is_known();
    return drops ? Qtrue : Qfalse;
}

/* ---- of a fiber ---------------------------------------------------------------------------- */

bool nb_kept_some(void)
{
    if (!unlocks)
        return false;
    const void *fiber = RTYPEDDATA_DATA(rb_fiber_current());
    const kept_t *mutex = *head();
    while (mutex && mutex->fiber != fiber)
        mutex = mutex->next;
    return mutex != NULL;
}

static VALUE unlock_own(RB_BLOCK_CALL_FUNC_ARGLIST(mutex, fiber))
{
    if (kept_of(mutex)->fiber == RTYPEDDATA_DATA(fiber))
        rb_mutex_unlock(mutex);
    return Qnil;
}

/* The list has no objects, so they are looked for. */
VALUE nb_kept_unlock(VALUE unused)
{
    VALUE mutex = rb_path2class("Thread::Mutex");
    return rb_block_call(rb_path2class("ObjectSpace"), rb_intern("each_object"), 1, &mutex,
                         unlock_own, rb_fiber_current());
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_end(VALUE mod)
{
    unlocks = is_known();
    return unlocks ? Qtrue : Qfalse;
}
#else
/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_unlock(VALUE mod)
{
    return Qfalse;
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_end(VALUE mod)
{
    return Qfalse;
}
#endif

void Init_nb_hooks_kept(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "repair_mutex_unlock", rb_nb_native_repair_mutex_unlock, 0);
    rb_define_singleton_method(mNative, "repair_mutex_end", rb_nb_native_repair_mutex_end, 0);
}
