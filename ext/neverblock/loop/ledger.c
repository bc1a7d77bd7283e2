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

/* The entry of the place, or else a free one, or else that of the oldest stall. */
static nb_ledger_entry_t *find(const char *place)
{
    nb_ledger_entry_t *oldest = &ledger.entries[0];
    for (size_t i = 0; i < NB_LEDGER_PLACES; i++) {
        nb_ledger_entry_t *entry = &ledger.entries[i];
        if (entry->last_ns && !strcmp(entry->place, place))
            return entry;
        if (entry->last_ns < oldest->last_ns)
            oldest = entry;
    }
    memset(oldest, 0, sizeof(*oldest));
    strcpy(oldest->place, place);
    return oldest;
}

void nb_ledger_add(const nb_stall_t *stall, uint64_t now)
{
    pthread_mutex_lock(&ledger.lock);
    nb_ledger_entry_t *entry = find(stall->place);
    strcpy(entry->callee, stall->callee);
    nb_stall_doing(stall, entry->doing, sizeof(entry->doing));
    entry->count++;
    entry->last_ns = now;
    if (entry->longest_ns < stall->stood_ns)
        entry->longest_ns = stall->stood_ns;
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
