/* job.c - one fiber waits for one piece of offloaded work. Uses ruby.h. Read after: job.h. */
#include "hooks/job.h"

static nb_job_t *job_of(nb_work_t *work)
{
    return nb_container_of(work, nb_job_t, work);
}

static void on_drop(nb_work_t *work)
{
    nb_job_t *job = job_of(work);
    if (job->park) /* in a forked child, where its fiber may go on and free it */
        job->done = true;
    else
        job->release(job);
}

static void on_done(nb_work_t *work)
{
    nb_job_t *job = job_of(work);
    if (!job->park) {
        job->release(job);
        return;
    }
    job->done = true;
    nb_wake(job->park, NB_WOKEN);
}

typedef struct {
    nb_loop_t *loop;
    nb_job_t *job;
    nb_park_t park;
    pid_t pid;
    bool finished;
} nb_job_wait_t;

static VALUE wait_body(VALUE argument)
{
    nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    nb_park(&wait->park);
    wait->finished = true;
    return Qnil;
}

static bool has_ended(const nb_job_wait_t *wait)
{
    return wait->job->done || wait->loop->pid != wait->pid; /* in a child: its thread is gone */
}

/* Whatever else interrupts, as an `ensure` that waits. */
static VALUE outlast(VALUE argument)
{
    nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    if (has_ended(wait) || wait->job->may_linger)
        return Qnil;
    nb_park_init(wait->loop, &wait->park, NB_PARK_OFFLOAD);
    wait->job->park = &wait->park;
    return rb_ensure(nb_park_value, (VALUE)&wait->park, outlast, argument);
}

static VALUE wait_end(VALUE argument)
{
    const nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    wait->loop->external--;
    if (has_ended(wait))
        wait->job->release(wait->job);
    else
        wait->job->park = NULL;
    return Qnil;
}

static VALUE wait_leave(VALUE argument)
{
    nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    if (!wait->finished && nb_offload_withdraw(&wait->job->work))
        wait->job->done = true;
    if (!wait->finished)
        return rb_ensure(outlast, argument, wait_end, argument);
    wait->loop->external--;
    return Qnil;
}

bool nb_job_wait(nb_loop_t *loop, nb_job_t *job, void (*run)(nb_work_t *))
{
    nb_job_wait_t wait = {.loop = loop, .job = job, .pid = loop->pid};
    job->work = (nb_work_t){.run = run, .done = on_done, .drop = on_drop};
    nb_park_init(loop, &wait.park, NB_PARK_OFFLOAD);
    job->park = &wait.park;
    job->done = false;
    if (nb_offload(loop->mail, &job->work) < 0)
        return false;
    loop->external++;
    loop->counters.offloads++;
    rb_ensure(wait_body, (VALUE)&wait, wait_leave, (VALUE)&wait);
    return true;
}
