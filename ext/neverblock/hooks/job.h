/* job.h - one fiber waits for one piece of offloaded work. Uses ruby.h. Read after: pool.h, wait.h.
 */
#ifndef NB_HOOKS_JOB_H
#define NB_HOOKS_JOB_H

#include "loop/wait.h"
#include "offload/pool.h"

/* Allocated with malloc and freed by `release`: the thread may still use it after the fiber has
 * left.
 */
typedef struct nb_job {
    nb_work_t work;
    nb_park_t *park; /* NULL when the fiber has left */
    bool done;       /* run, or dropped in a forked child */
    bool may_linger; /* an interrupted fiber need not wait for its end: it may never come */
    void (*release)(struct nb_job *);
} nb_job_t;

/* Runs `run` on an offload thread and parks until it is done. The caller then reads the result and
 * calls release. If an exception ends the wait, work that has not begun never runs, and work that
 * has begun is waited for, or if it may linger, releases itself after it has run. Returns false,
 * with nothing started, if no thread is available. */
bool nb_job_wait(nb_loop_t *loop, nb_job_t *job, void (*run)(nb_work_t *));

#endif
