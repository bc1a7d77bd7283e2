/* watchdog.h - notices a loop that stands still. Uses ruby.h. Read after: loop.h. */
#ifndef NB_LOOP_WATCHDOG_H
#define NB_LOOP_WATCHDOG_H

#include "loop/loop.h"

/* The calling thread is the loop's: from now on it is watched, unless that is switched off. */
void nb_watchdog_add(nb_loop_t *loop);
void nb_watchdog_remove(nb_loop_t *loop);
void nb_watchdog_init(void);

extern atomic_bool nb_watchdog_sleeps;
void nb_watchdog_rouse(void);

/* The loop wakes up. Costs a system call only if all loops of the process have been asleep. */
static inline void nb_watchdog_awake(nb_loop_t *loop)
{
    atomic_store(&loop->asleep, false);
    if (atomic_load(&nb_watchdog_sleeps))
        nb_watchdog_rouse();
}

#endif
