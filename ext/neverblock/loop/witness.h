/* witness.h - where in the program a thread is, asked from outside. Uses ruby.h.
 * Read after: loop.h, stall.h. Used by: watchdog.c. */
#ifndef NB_LOOP_WITNESS_H
#define NB_LOOP_WITNESS_H

#include "loop/loop.h"
#include "loop/stall.h"

/* Asks the loop's thread where it is, for at most 20 ms. Any thread, without the GVL. */
void nb_witness_ask(const nb_loop_t *loop);

/* Whether it has answered; it does not during garbage collection. */
bool nb_witness_knows(void);

/* What is known about the thread asked last: its place, the method in C, the collector. */
void nb_witness_tell(nb_stall_t *stall);

/* Finds the name of the method in C; otherwise a postponed job does. With the GVL. */
void nb_witness_name(void);

/* Called once, with the GVL, after nb_place_install. */
void nb_witness_install(void);

/* In a forked child. */
void nb_witness_forget(void);

#endif
