/* stall.h - what is said of a loop that stood still. Pure C. Read after: base/clock.h.
 * Used by: ledger.c, witness.c, watchdog.c. */
#ifndef NB_LOOP_STALL_H
#define NB_LOOP_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    uint64_t stood_ns, computed_ns;
    bool in_ruby;     /* it was in Ruby code then, where only the GVL is waited for */
    bool unnamed;     /* a method in C ran there, whose name will be known soon */
    bool runnable;    /* it waited for nothing in the kernel when it was looked at */
    bool collects;    /* garbage was collected when the thread was asked */
    char place[512];  /* "app.rb:12:in `name'"; empty: unknown */
    char callee[128]; /* the method in C that ran there; empty: none, or unknown */
    char wait[512];   /* "in the system call flock (fd 7: /tmp/lock)"; empty: none, or unknown */
} nb_stall_t;

/* How long the thread has waited for a core so far; 0 where the kernel does not tell. */
uint64_t nb_stall_queued_ns(pid_t tid);

/* Notes in which system call the thread is. */
void nb_stall_note_wait(nb_stall_t *stall, pid_t tid);

/* Whether it mostly waited for the GVL, which other threads had. */
bool nb_stall_waited_for_gvl(const nb_stall_t *stall);

/* Whether it could have run and did not even take a signal: it had no core. */
bool nb_stall_had_no_core(const nb_stall_t *stall);

/* Writes what the loop's thread did, such as "computes", into text. */
void nb_stall_doing(const nb_stall_t *stall, char *text, size_t size);

/* Writes the sentence of the stall, with its newline, into text; as snprintf. unreported: how many
 * there were at that place since the last one that was told. */
int nb_stall_text(const nb_stall_t *stall, unsigned unreported, char *text, size_t size);

/* Whether this one is to be told: the first at its place in a minute. Then *unreported is how many
 * were not; else it is counted. */
bool nb_stall_is_news(const nb_stall_t *stall, uint64_t now, unsigned *unreported);

/* Forgets all places: in a forked child. */
void nb_stall_forget(void);

#endif
