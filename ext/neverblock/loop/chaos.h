/* chaos.h - faults and orders that a seed decides; compiled in for tests only. Uses ruby.h.
 *
 * Built with NB_CHAOS=1 (rake compile; installed beside the usual build) and run with
 * NB_CHAOS=seed. Each site asks its own sequence of numbers, made from the seed, the site and its
 * count of questions. So a seed makes the same decisions again, and one site's luck does not shift
 * another's. Each seed leaves some sites out and draws a rate for the others, because faults that
 * always happen everywhere find less. What the kernel and other threads do is not decided here.
 *
 * Without NB_CHAOS all of this is empty.
 */
#ifndef NB_CHAOS_H
#define NB_CHAOS_H

#include <stdbool.h>
#include <stddef.h>

struct nb_loop;

typedef enum {
    NB_CHAOS_ORDER,    /* another ready fiber runs next */
    NB_CHAOS_YIELD,    /* the others run first */
    NB_CHAOS_POLL,     /* the backend is asked early */
    NB_CHAOS_SPURIOUS, /* a wait for bytes, a lock or a queue ends for no reason */
    NB_CHAOS_SHORT,    /* fewer bytes move than could */
    NB_CHAOS_DRY,      /* EAGAIN though there are bytes or room */
    NB_CHAOS_EINTR,    /* a signal's handler ended the system call */
    NB_CHAOS_THREADS,  /* other threads run */
    NB_CHAOS_GC,       /* garbage is collected */
    NB_CHAOS_COMPACT,  /* and what is left moved */
    NB_CHAOS_SITES,
} nb_chaos_site_t;

#ifdef NB_CHAOS
bool nb_chaos(nb_chaos_site_t site);

/* A number below limit. */
size_t nb_chaos_pick(size_t limit);

/* At most size, at least 1; sizes of 0 stay. */
size_t nb_chaos_size(size_t size);

/* At the start of a hook, and wherever others may run. */
void nb_chaos_step(struct nb_loop *loop);

/* The same where others may not run: the caller is already on a lock's list, or must not raise. */
void nb_chaos_pause(struct nb_loop *loop);

void Init_nb_chaos(void);
#else
#define nb_chaos(site) false
#define nb_chaos_size(size) (size)
#define nb_chaos_step(loop) ((void)0)
#define nb_chaos_pause(loop) ((void)0)
#define Init_nb_chaos() ((void)0)
#endif

#endif
