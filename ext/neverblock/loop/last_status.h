/* last_status.h - each fiber has a $? of its own. Uses ruby.h. Read after: loop.h.
 *
 * Ruby keeps the status of the last child in the thread, where all fibers of a loop would share it.
 * So a fiber that continues after a wait gets back the $? that it had before.
 */
#ifndef NB_LAST_STATUS_H
#define NB_LAST_STATUS_H

#include "loop/loop.h"

/* Sets $? to what it was: a Process::Status, or nil. */
void nb_last_status_set(nb_loop_t *loop, VALUE status);

static inline void nb_last_status_restore(nb_loop_t *loop, VALUE status)
{
    if (rb_last_status_get() != status)
        nb_last_status_set(loop, status);
}

/* Whether the hook process_wait is to return nil at once, which makes Ruby clear $?. */
bool nb_last_status_clears(const nb_loop_t *loop, VALUE pid);

void Init_nb_last_status(void);

#endif
