/* profile.h - where the time of a loop's thread and of its fibers goes. Uses ruby.h.
 *
 * While a profile is on, each wait of a fiber is noted with its stack: how long the fiber waited,
 * and how long it then took until it ran. Read after: stacks.h, sampler.h.
 */
#ifndef NB_LOOP_PROFILE_H
#define NB_LOOP_PROFILE_H

#include "base/list.h"
#include "loop/stacks.h"

struct nb_loop;
struct nb_park;

/* A wait that is noted. */
typedef struct nb_seen {
    nb_list_t link;
    nb_stack_t *stack;
    uint64_t since_ns, ready_ns; /* ready_ns is 0 until the fiber is ready */
} nb_seen_t;

/* Whether a profile is on. The hot paths ask this. */
extern bool nb_profile_on;

/* Called around a wait. nb_profile_begins returns the park's `seen`, or NULL. */
nb_seen_t *nb_profile_begins(const struct nb_park *park);
void nb_profile_ends(nb_seen_t *seen);

/* Called around the loop's sleep in the kernel. */
void nb_profile_sleeps(const struct nb_loop *loop);
void nb_profile_woke(const struct nb_loop *loop);

/* For a forked child, which has no profile. */
void nb_profile_forget(void);

void Init_nb_profile(void);

#endif
