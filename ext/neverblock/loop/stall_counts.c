/* stall_counts.c - the stalls of a process, by place. Pure C. Read after: stall_counts.h.
 *
 * The lock is held no longer than a copy takes, so a thread with the GVL may wait for it.
 */
#include "loop/stall_counts.h"
#include <pthread.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    nb_stall_count_t entries[NB_STALL_COUNTS_PLACES];
} counts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *place_of(const nb_stall_t *stall)
{
    return stall->by_others ? NB_STALL_COUNTS_GVL : stall->place;
}

static nb_stall_count_t *find(const char *place)
{
    for (size_t i = 0; i < NB_STALL_COUNTS_PLACES; i++)
        if (counts.entries[i].last_ns && !strcmp(counts.entries[i].place, place))
            return &counts.entries[i];
    return NULL;
}

/* A free entry, or else that of the oldest stall. */
static nb_stall_count_t *take(const char *place)
{
    nb_stall_count_t *oldest = &counts.entries[0];
    for (size_t i = 0; i < NB_STALL_COUNTS_PLACES; i++)
        if (counts.entries[i].last_ns < oldest->last_ns)
            oldest = &counts.entries[i];
    memset(oldest, 0, sizeof(*oldest));
    strcpy(oldest->place, place);
    return oldest;
}

static void extend(nb_stall_count_t *entry, const nb_stall_t *stall, uint64_t now)
{
    entry->last_ns = now;
    if (entry->longest_ns < stall->stood_ns)
        entry->longest_ns = stall->stood_ns;
}

void nb_stall_counts_add(const nb_stall_t *stall, uint64_t now)
{
    pthread_mutex_lock(&counts.lock);
    nb_stall_count_t *entry = find(place_of(stall));
    if (!entry)
        entry = take(place_of(stall));
    strcpy(entry->callee, stall->by_others ? "" : stall->callee);
    nb_stall_doing(stall, entry->doing, sizeof(entry->doing));
    entry->count++;
    extend(entry, stall, now);
    pthread_mutex_unlock(&counts.lock);
}

void nb_stall_counts_extend(const nb_stall_t *stall, uint64_t now)
{
    pthread_mutex_lock(&counts.lock);
    nb_stall_count_t *entry = find(place_of(stall));
    if (entry)
        extend(entry, stall, now);
    pthread_mutex_unlock(&counts.lock);
}

bool nb_stall_counts_copy(size_t i, nb_stall_count_t *entry)
{
    pthread_mutex_lock(&counts.lock);
    *entry = counts.entries[i];
    pthread_mutex_unlock(&counts.lock);
    return entry->last_ns;
}

void nb_stall_counts_forget(void)
{
    pthread_mutex_init(&counts.lock, NULL);
    memset(counts.entries, 0, sizeof(counts.entries));
}
