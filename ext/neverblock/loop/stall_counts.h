/* stall_counts.h - the stalls of a process, by place. Pure C. Read after: stall.h. */
#ifndef NB_LOOP_STALL_COUNTS_H
#define NB_LOOP_STALL_COUNTS_H

#include "loop/stall.h"

#define NB_STALL_COUNTS_PLACES 64 /* then the one that stalled longest ago is forgotten */

typedef struct {
    char place[sizeof((nb_stall_t *)0)->place];   /* empty: one that is not known */
    char callee[sizeof((nb_stall_t *)0)->callee]; /* the method in C; empty: none, or unknown */
    char doing[640];                              /* what it did at the last stall, in words */
    uint64_t count, longest_ns, last_ns;          /* last_ns: the clock; 0: the entry is free */
} nb_stall_count_t;

/* The place of all waits for the GVL. The loop's own line is not to blame, and whoever has the GVL
 * is not known. */
#define NB_STALL_COUNTS_GVL "the GVL"

/* Counts a stall. Any thread, without the GVL. */
void nb_stall_counts_add(const nb_stall_t *stall, uint64_t now);

/* A counted stall has gone on: it was longer. */
void nb_stall_counts_extend(const nb_stall_t *stall, uint64_t now);

/* Copies entry i, from 0 to NB_STALL_COUNTS_PLACES - 1; false: it is free. Any thread. */
bool nb_stall_counts_copy(size_t i, nb_stall_count_t *entry);

/* Forgets all stalls: in a forked child. */
void nb_stall_counts_forget(void);

#endif
