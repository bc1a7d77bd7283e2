/* watchdog.h - notices a loop that stands still. Uses ruby.h. Read after: loop.h.
 * Used by: life.c, fork.c. */
#ifndef NB_LOOP_WATCHDOG_H
#define NB_LOOP_WATCHDOG_H

#include "loop/loop.h"

/* The calling thread is the loop's: from now on it is watched, unless that is switched off. */
void nb_watchdog_add(nb_loop_t *loop);
void nb_watchdog_remove(nb_loop_t *loop);
void nb_watchdog_init(void);

#endif
