/* pool.c - native threads for what cannot wait. Pure C. Read after: pool.h. */
#include "offload/pool.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#define IDLE_SECONDS 5
#define STACK_BYTES (256 * 1024)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static nb_list_t quick = {&quick, &quick}, slow = {&slow, &slow};
static int threads, idle, queued, slow_running;
static bool guarded; /* against forks */

/* Called with the lock. The work to do next; NULL: there is none, or only slow work, of which
 * enough runs. */
static nb_work_t *next_work(void)
{
    nb_list_t *queue = nb_list_empty(&quick) && slow_running < NB_OFFLOAD_SLOW ? &slow : &quick;
    return nb_list_empty(queue) ? NULL : nb_container_of(queue->next, nb_work_t, link);
}

/* Called with the lock. */
static void take_out(nb_work_t *work)
{
    nb_list_remove(&work->link);
    work->queued = false;
    queued--;
}

/* Called with the lock; NULL when it is time to end. */
static nb_work_t *await_work(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    idle++;
    int result = 0;
    while (!next_work() && result == 0)
        result = pthread_cond_timedwait(&work_came, &lock, &until);
    idle--;
    return next_work();
}

static void *thread_main(void *unused)
{
    pthread_mutex_lock(&lock);
    for (nb_work_t *work; (work = await_work());) {
        bool is_slow = work->slow;
        take_out(work);
        slow_running += is_slow;
        pthread_mutex_unlock(&lock);
        work->run(work);
        nb_mailbox_deliver(work);
        pthread_mutex_lock(&lock);
        slow_running -= is_slow;
    }
    threads--;
    pthread_mutex_unlock(&lock);
    return unused;
}

/* A fork must not copy a half-linked list, nor a lock held by a thread that the child lacks. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has none of the threads, nor the work they had. */
static void fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work_came, NULL);
    while (!nb_list_empty(&quick))
        take_out(nb_container_of(quick.next, nb_work_t, link));
    while (!nb_list_empty(&slow))
        take_out(nb_container_of(slow.next, nb_work_t, link));
    threads = idle = slow_running = 0;
}

/* Called with the lock. Signals stay with Ruby's own threads. */
static int start_thread(void)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    if (!guarded)
        guarded = !pthread_atfork(before_fork, fork_in_parent, fork_in_child);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int result = pthread_create(&thread, &attributes, thread_main, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (result == 0)
        threads++;
    return -result;
}

int nb_offload(nb_mailbox_t *mail, nb_work_t *work)
{
    int result = 0;
    nb_mailbox_expect(mail, work); /* before: no lock is taken while another is held */
    pthread_mutex_lock(&lock);
    if (queued >= idle && threads < NB_OFFLOAD_THREADS)
        result = start_thread();
    if (result == 0 || threads > 0) {
        result = 0;
        queued++;
        work->queued = true;
        nb_list_append(work->slow ? &slow : &quick, &work->link);
        pthread_cond_signal(&work_came);
    }
    pthread_mutex_unlock(&lock);
    if (result < 0)
        nb_mailbox_take_back(work);
    return result;
}

bool nb_offload_withdraw(nb_work_t *work)
{
    pthread_mutex_lock(&lock);
    bool was_queued = work->queued;
    if (was_queued)
        take_out(work);
    pthread_mutex_unlock(&lock);
    if (was_queued)
        nb_mailbox_take_back(work);
    return was_queued;
}

void nb_offload_counts(int *thread_count, int *queue_count)
{
    pthread_mutex_lock(&lock);
    *thread_count = threads;
    *queue_count = queued;
    pthread_mutex_unlock(&lock);
}
