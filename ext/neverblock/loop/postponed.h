/* postponed.h - a function that Ruby calls at a thread's next check for interrupts. Uses ruby.h.
 *
 * A signal handler may request it. The function gets NULL.
 */
#ifndef NB_POSTPONED_H
#define NB_POSTPONED_H

#include <ruby.h>
#include <ruby/debug.h>

typedef struct {
    rb_postponed_job_func_t function;
#ifdef HAVE_RB_POSTPONED_JOB_TRIGGER
    rb_postponed_job_handle_t handle;
#endif
} nb_postponed_t;

static inline nb_postponed_t nb_postponed(rb_postponed_job_func_t function)
{
    nb_postponed_t job = {.function = function};
#ifdef HAVE_RB_POSTPONED_JOB_TRIGGER
    job.handle = rb_postponed_job_preregister(0, function, NULL);
#endif
    return job;
}

static inline void nb_postponed_request(const nb_postponed_t *job)
{
#ifdef HAVE_RB_POSTPONED_JOB_TRIGGER
    rb_postponed_job_trigger(job->handle);
#else
    rb_postponed_job_register_one(0, job->function, NULL);
#endif
}

#endif
