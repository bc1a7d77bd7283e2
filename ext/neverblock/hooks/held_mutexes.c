/* held_mutexes.c - a thread's list of mutexes, for mutex_unlock and mutex_end. Uses ruby.h.
 * Read after: held_mutexes.h, early_unblock.h.
 *
 * Ruby has no call for it, and its structs are private. So locking two mutexes shows where in the
 * struct of a thread the list's head is. If that shows anything unexpected, the repairs do nothing.
 */
#include "hooks/held_mutexes.h"
#include "hooks/early_unblock.h"
#include "hooks/hooks.h"

#if NB_KNOWS_HELD_MUTEXES
#include <malloc.h>
#include <ruby/version.h>

/* How rb_mutex_t begins: up to Ruby 3.4 with the fiber's struct, in 4.0 with its number. */
#if RUBY_API_VERSION_CODE < 40000
#define NUMBERED 0
typedef const void *holder_t;
#else
#define NUMBERED 1
typedef unsigned LONG_LONG holder_t;
static size_t number_place; /* in words from the begin of a fiber's struct; 0: not known */
#endif

typedef struct held_mutex {
    holder_t fiber; /* that has locked it; 0: unlocked */
#if NUMBERED
    void *thread;
#endif
    struct held_mutex *next;
} held_mutex_t;

static size_t head_place; /* in words from the begin of the thread's struct; 0: not known */
static bool drops, unlocks;

static held_mutex_t *mutex_of(VALUE mutex)
{
    return RTYPEDDATA_DATA(mutex);
}

static held_mutex_t **words_of(VALUE thread)
{
    return RTYPEDDATA_DATA(thread);
}

static held_mutex_t **head(void)
{
    return words_of(rb_thread_current()) + head_place;
}

/* What a mutex has in it that the fiber with this struct has locked. */
static holder_t holder(const void *fiber)
{
#if NUMBERED
    return ((const holder_t *)fiber)[number_place];
#else
    return fiber;
#endif
}

/* ---- where it is --------------------------------------------------------------------------- */

/* The one word that points to the mutex which the current thread has locked last; 0: no word, or
 * more than one. */
static size_t find_head(const held_mutex_t *mutex)
{
    held_mutex_t **words = words_of(rb_thread_current());
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
static bool proves_right(held_mutex_t **head, const held_mutex_t *first, VALUE other)
{
    bool right = rb_mutex_trylock(other) && *head == mutex_of(other) && (*head)->next == first;
    rb_mutex_unlock(other);
    return right && *head == first && first->fiber == holder(RTYPEDDATA_DATA(rb_fiber_current()));
}

static size_t find_place(VALUE first, VALUE other)
{
    if (!rb_mutex_trylock(first))
        return 0;
    size_t place = find_head(mutex_of(first));
    held_mutex_t **head = words_of(rb_thread_current()) + place;
    if (place && !proves_right(head, mutex_of(first), other))
        place = 0;
    rb_mutex_unlock(first);
    return place && *head != mutex_of(first) && !mutex_of(first)->fiber ? place : 0;
}

#if NUMBERED
typedef struct {
    VALUE mutex;
    holder_t number;
} numbered_t;

static VALUE note_number(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
    numbered_t *numbered = (numbered_t *)argument;
    rb_mutex_lock(numbered->mutex);
    numbered->number = mutex_of(numbered->mutex)->fiber;
    return rb_mutex_unlock(numbered->mutex);
}

/* The one word in which each of two fibers has what a mutex has that it locks; 0: no word, or more
 * than one. */
static size_t find_number(VALUE mutex)
{
    numbered_t one = {mutex, 0}, two = {mutex, 0};
    VALUE first = rb_fiber_new(note_number, (VALUE)&one);
    VALUE second = rb_fiber_new(note_number, (VALUE)&two);
    rb_fiber_resume(first, 0, NULL);
    rb_fiber_resume(second, 0, NULL);
    const holder_t *words = RTYPEDDATA_DATA(first), *others = RTYPEDDATA_DATA(second);
    size_t count = malloc_usable_size((void *)words) / sizeof(*words), found = 0;
    for (size_t i = 1; one.number != two.number && i < count; i++) {
        if (words[i] != one.number || others[i] != two.number)
            continue;
        if (found)
            return 0;
        found = i;
    }
    RB_GC_GUARD(first);
    RB_GC_GUARD(second);
    return found;
}
#endif

static bool is_known(void)
{
    VALUE first = rb_mutex_new(), other = rb_mutex_new();
#if NUMBERED
    if (!number_place && !(number_place = find_number(first)))
        return false;
#endif
    if (!head_place)
        head_place = find_place(first, other);
    RB_GC_GUARD(first);
    RB_GC_GUARD(other);
    return head_place;
}

/* ---- of a mutex ---------------------------------------------------------------------------- */

void nb_held_mutexes_drop(VALUE blocker)
{
    if (!drops || nb_is_hidden(blocker) || !nb_is_mutex(blocker) || mutex_of(blocker)->fiber)
        return;
    held_mutex_t **at = head(), *mutex = mutex_of(blocker);
    while (*at && *at != mutex)
        at = &(*at)->next;
    if (*at) {
        *at = mutex->next;
        mutex->next = NULL;
    }
}

bool nb_held_mutexes_by(const void *fiber, VALUE blocker)
{
    bool known = drops || unlocks;
    return known && !nb_is_hidden(blocker) && nb_is_mutex(blocker) &&
           mutex_of(blocker)->fiber == holder(fiber);
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_unlock(VALUE mod)
{
    drops = is_known();
    return drops ? Qtrue : Qfalse;
}

/* ---- of a fiber ---------------------------------------------------------------------------- */

bool nb_held_mutexes_some(void)
{
    if (!unlocks)
        return false;
    holder_t fiber = holder(RTYPEDDATA_DATA(rb_fiber_current()));
    const held_mutex_t *mutex = *head();
    while (mutex && mutex->fiber != fiber)
        mutex = mutex->next;
    return mutex != NULL;
}

static VALUE unlock_own(RB_BLOCK_CALL_FUNC_ARGLIST(mutex, fiber))
{
    if (mutex_of(mutex)->fiber == holder(RTYPEDDATA_DATA(fiber)))
        rb_mutex_unlock(mutex);
    return Qnil;
}

/* The list has no objects, so they are looked for. */
VALUE nb_held_mutexes_unlock(VALUE unused)
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

void Init_nb_hooks_held_mutexes(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "repair_mutex_unlock", rb_nb_native_repair_mutex_unlock, 0);
    rb_define_singleton_method(mNative, "repair_mutex_end", rb_nb_native_repair_mutex_end, 0);
}
