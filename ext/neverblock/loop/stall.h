/* stall.h - the words of a report on a loop that stood still. Pure C. Read after: base/clock.h. */
#ifndef NB_LOOP_STALL_H
#define NB_LOOP_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    uint64_t stood_ns, computed_ns;
    bool in_ruby;     /* it ran Ruby code, which waits for nothing but the GVL */
    bool unnamed;     /* a method in C ran there, whose name will be known soon */
    bool runnable;    /* it did not wait in the kernel when observed */
    bool wants_gvl;   /* Ruby said that it waited for the GVL (from 3.2 on) */
    bool in_call;     /* it was in a system call, but for that by which threads wait */
    bool by_others;   /* when counted, it waited for the GVL: other threads are to blame */
    bool collects;    /* garbage was collected when the thread was asked */
    char place[512];  /* "app.rb:12:in `name'"; empty: unknown */
    char callee[128]; /* the method in C that ran there; empty: none, or unknown */
    char wait[512];   /* "in the system call flock (fd 7: /tmp/lock)"; empty: none, or unknown */
} nb_stall_t;

/* How often a thread has got a core so far, and how long it waited for one. */
typedef struct {
    uint64_t runs; /* 0: the kernel does not tell */
    uint64_t queued_ns;
} nb_scheduled_t;

nb_scheduled_t nb_stall_scheduled(pid_t tid);

/* How long a thread waited for a core between the two; 0 if the kernel did not tell. */
uint64_t nb_stall_queued_ns(nb_scheduled_t from, nb_scheduled_t to);

/* Records which system call the thread is in. */
void nb_stall_note_wait(nb_stall_t *stall, pid_t tid);

/* It has stood for that long, and never for less than a report has said: the kernel counts a wait
 * for a core only when it is over, and then the stall seems to have been shorter. */
void nb_stall_extend(nb_stall_t *stall, uint64_t stood_ns);

/* Whether it mostly waited for the GVL, which other threads held. */
bool nb_stall_waited_for_gvl(const nb_stall_t *stall);

/* Whether it could have run but did not even take a signal: it had no core. */
bool nb_stall_had_no_core(const nb_stall_t *stall);

/* Writes what the loop's thread did, such as "computes", into text. */
void nb_stall_doing(const nb_stall_t *stall, char *text, size_t size);

/* Writes the sentence about the stall, with its newline, into text; returns what snprintf returns.
 * unreported: how many stalls there were at that place since the last report. */
int nb_stall_text(const nb_stall_t *stall, unsigned unreported, char *text, size_t size);

/* The same about one that was reported while it lasted: how long it lasted in all. */
int nb_stall_end_text(const nb_stall_t *stall, char *text, size_t size);

/* Whether to report this stall: the first at its place in a minute. Then *unreported is the number
 * of unreported ones; otherwise this one is counted. */
bool nb_stall_is_news(const nb_stall_t *stall, uint64_t now, unsigned *unreported);

/* Forgets all places: in a forked child. */
void nb_stall_forget(void);

#endif
