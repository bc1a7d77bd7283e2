/* ledger.c - the stalls of a process, by place. Pure C. Read after: ledger.h.
 *
 * The lock is held no longer than a copy takes, so a thread with the GVL may wait for it.
 */
#include "loop/ledger.h"
#include <pthread.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    nb_ledger_entry_t entries[NB_LEDGER_PLACES];
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *place_of(const nb_stall_t *stall)
{
    return stall->by_others ? NB_LEDGER_GVL : stall->place;
}

static nb_ledger_entry_t *find(const char *place)
{
    for (size_t i = 0; i < NB_LEDGER_PLACES; i++)
        if (ledger.entries[i].last_ns && !strcmp(ledger.entries[i].place, place))
            return &ledger.entries[i];
    return NULL;
}

/* A free entry, or else that of the oldest stall. */
static nb_ledger_entry_t *take(const char *place)
{
    nb_ledger_entry_t *oldest = &ledger.entries[0];
    for (size_t i = 0; i < NB_LEDGER_PLACES; i++)
        if (ledger.entries[i].last_ns < oldest->last_ns)
            oldest = &ledger.entries[i];
    memset(oldest, 0, sizeof(*oldest));
    strcpy(oldest->place, place);
    return oldest;
}

static void extend(nb_ledger_entry_t *entry, const nb_stall_t *stall, uint64_t now)
{
    entry->last_ns = now;
    if (entry->longest_ns < stall->stood_ns)
        entry->longest_ns = stall->stood_ns;
}

void nb_ledger_add(const nb_stall_t *stall, uint64_t now)
{
    pthread_mutex_lock(&ledger.lock);
    nb_ledger_entry_t *entry = find(place_of(stall));
    if (!entry)
        entry = take(place_of(stall));
    strcpy(entry->callee, stall->by_others ? "" : stall->callee);
    nb_stall_doing(stall, entry->doing, sizeof(entry->doing));
    entry->count++;
    extend(entry, stall, now);
    pthread_mutex_unlock(&ledger.lock);
}

void nb_ledger_extend(const nb_stall_t *stall, uint64_t now)
{
    pthread_mutex_lock(&ledger.lock);
    nb_ledger_entry_t *entry = find(place_of(stall));
    if (entry)
        extend(entry, stall, now);
    pthread_mutex_unlock(&ledger.lock);
}

bool nb_ledger_copy(size_t i, nb_ledger_entry_t *entry)
{
    pthread_mutex_lock(&ledger.lock);
    *entry = ledger.entries[i];
    pthread_mutex_unlock(&ledger.lock);
    return entry->last_ns;
}

void nb_ledger_forget(void)
{
    pthread_mutex_init(&ledger.lock, NULL);
    memset(ledger.entries, 0, sizeof(ledger.entries));
}
