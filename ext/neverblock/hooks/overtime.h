/* overtime.h - a block that computes past its deadline. Uses ruby.h. Read after: timeout.h. */
#ifndef NB_HOOKS_OVERTIME_H
#define NB_HOOKS_OVERTIME_H

#include "hooks/timeout.h"

/* A timeout begins: its block is checked soon after deadline_ns. */
void nb_overtime_watch(uint64_t deadline_ns);
/* A timeout that was `traced` ends. */
void nb_overtime_trace_no_more(nb_loop_t *loop);
/* on_due: this function distinguishes a timeout's timer from the loop's others. */
void nb_overtime_init(void (*on_due)(nb_timer_t *timer));

#endif
