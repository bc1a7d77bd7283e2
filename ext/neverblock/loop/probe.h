/* probe.h - where in the program threads are, asked from outside. Uses ruby.h.
 * Read after: loop.h, stall.h.
 */
#ifndef NB_LOOP_PROBE_H
#define NB_LOOP_PROBE_H

#include "loop/loop.h"
#include "loop/stall.h"

#define NB_PROBES 16 /* threads that may be asked about at the same time */

/* Asks the loop's thread where it is, as probe i, and waits for the answer, for at most 20 ms. A
 * later answer counts, too: a thread that the kernel holds takes the signal when it is let go. Any
 * thread, without the GVL. */
void nb_probe_ask(size_t i, const nb_loop_t *loop);

/* Takes back a question that is not answered, and forgets the answer to the one before it. */
void nb_probe_dismiss(size_t i);

/* Copies the last answer, if there is one: the place, the method in C, the collector. */
void nb_probe_tell(size_t i, nb_stall_t *stall);

/* Finds the names of the methods in C; otherwise a postponed job does. With the GVL. */
void nb_probe_name(void);

/* Called once, with the GVL, after nb_probe_forget and nb_place_install. */
void nb_probe_install(void);

/* At the start, and in a forked child. */
void nb_probe_forget(void);

#endif
