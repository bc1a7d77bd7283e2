/* kept.c - how the repair mutex_unlock changes a thread's list of mutexes. Uses ruby.h.
 * Read after: kept.h, early.h.
 *
 * Ruby has no call for it, and its structs are private. So locking two mutexes shows where in the
 * struct of a thread the list's head is. If that shows anything unexpected, the repair does
 * nothing.
 */
#include "hooks/kept.h"
#include "hooks/early.h"
#include "hooks/hooks.h"

#if NB_KEEPS_UNLOCKED
#include <malloc.h>

/* How rb_mutex_t begins in Ruby 3.1. */
typedef struct kept {
    void *fiber; /* that has locked it; NULL: unlocked */
    struct kept *next;
} kept_t;

static size_t head_place; /* in words from the begin of the thread's struct; 0: not known */

static kept_t *kept_of(VALUE mutex)
{
    return RTYPEDDATA_DATA(mutex);
}

static kept_t **words_of(VALUE thread)
{
    return RTYPEDDATA_DATA(thread);
}

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
    return right && *head == first && first->fiber;
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

void nb_kept_drop(VALUE blocker)
{
    if (!head_place || nb_is_hidden(blocker) || !nb_is_mutex(blocker) || kept_of(blocker)->fiber)
        return;
    kept_t **at = words_of(rb_thread_current()) + head_place, *mutex = kept_of(blocker);
    while (*at && *at != mutex)
        at = &(*at)->next;
    if (*at) {
        *at = mutex->next;
        mutex->next = NULL;
    }
}

/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_unlock(VALUE mod)
{
    VALUE first = rb_mutex_new(), other = rb_mutex_new();
    head_place = find_place(first, other);
    RB_GC_GUARD(first);
    RB_GC_GUARD(other);
    return head_place ? Qtrue : Qfalse;
}
#else
/* @!visibility private */
static VALUE rb_nb_native_repair_mutex_unlock(VALUE mod)
{
    return Qfalse;
}
#endif

void Init_nb_hooks_kept(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "repair_mutex_unlock",
                               rb_nb_native_repair_mutex_unlock, 0);
}
