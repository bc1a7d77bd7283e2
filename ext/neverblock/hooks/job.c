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

typedef struct {
    bool (*is_over)(VALUE);
    VALUE (*wait)(VALUE);
    VALUE argument;
    bool in_ruby; /* these two are Ruby methods, which need room on the fiber's stack */
} nb_persistent_t;

static VALUE jump(VALUE tag)
{
    rb_jump_tag((int)tag);
}

/* Raise of a thread may strike in either. */
static VALUE look_and_wait(VALUE argument)
{
    const nb_persistent_t *what = (nb_persistent_t *)argument;
    if (what->is_over(what->argument))
        return Qtrue;
    what->wait(what->argument);
    return Qfalse;
}

/* Waits until it is over, whatever interrupts; the last of that goes on then. An `ensure` for each
 * exception, inside the one before, would fill the stack. A throw or a kill, which Ruby keeps in no
 * object, has one. */
static VALUE persist(VALUE argument)
{
    const nb_persistent_t *what = (nb_persistent_t *)argument;
    VALUE error = Qnil;
    int tag = 0, last = 0;
    while (rb_protect(look_and_wait, argument, &tag) != Qtrue) {
        if (tag && !nb_is_exception(rb_errinfo()))
            rb_ensure(jump, (VALUE)tag, persist, argument);
        if (tag) {
            error = rb_errinfo();
            last = tag;
        }
        if (tag && what->in_ruby && RTEST(rb_obj_is_kind_of(error, rb_eSysStackError)))
            break; /* it would be so each time, and no other thread would run */
    }
    if (last) {
        rb_set_errinfo(error);
        rb_jump_tag(last);
    }
    return Qnil;
}

static bool need_not_wait(VALUE argument)
{
    const nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    return has_ended(wait) || wait->job->may_linger;
}

static VALUE wait_on(VALUE argument)
{
    nb_job_wait_t *wait = (nb_job_wait_t *)argument;
    nb_park_init(wait->loop, &wait->park, NB_PARK_OFFLOAD);
    wait->job->park = &wait->park;
    return nb_park_value((VALUE)&wait->park);
}

static VALUE outlast(VALUE argument)
{
    nb_persistent_t what = {need_not_wait, wait_on, argument, false};
    return persist((VALUE)&what);
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

/* ---- the same for lib/neverblock/loop/offload.rb -------------------------------------------- */

static bool is_done(VALUE job)
{
    return RTEST(rb_funcall(job, rb_intern("done?"), 0));
}

static VALUE wait_for_it(VALUE job)
{
    return rb_funcall(job, rb_intern("wait"), 0);
}

/* @!visibility private - calls the job's #wait until it is #done?, whatever interrupts. */
static VALUE rb_nb_native_outlast(VALUE mod, VALUE job)
{
    nb_persistent_t what = {is_done, wait_for_it, job, true};
    return persist((VALUE)&what);
}

void Init_nb_hooks_job(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "outlast", rb_nb_native_outlast, 1);
}
