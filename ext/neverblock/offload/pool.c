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
static nb_list_t queue = {&queue, &queue};
static int threads, idle, queued;
static bool guarded; /* against forks */

/* Called with the lock; false when it is time to end. */
static int await_work(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    idle++;
    int result = 0;
    while (nb_list_empty(&queue) && result == 0)
        result = pthread_cond_timedwait(&work_came, &lock, &until);
    idle--;
    return !nb_list_empty(&queue);
}

static void *thread_main(void *unused)
{
    pthread_mutex_lock(&lock);
    while (await_work()) {
        nb_work_t *work = nb_container_of(queue.next, nb_work_t, link);
        nb_list_remove(&work->link);
        queued--;
        pthread_mutex_unlock(&lock);
        work->run(work);
        nb_mailbox_deliver(work);
        pthread_mutex_lock(&lock);
    }
    threads--;
    pthread_mutex_unlock(&lock);
    return unused;
}

/* A fork shall not find a list half linked, nor the lock taken by a thread that the child has not.
 */
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
    nb_list_init(&queue);
    threads = idle = queued = 0;
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
        nb_list_append(&queue, &work->link);
        pthread_cond_signal(&work_came);
    }
    pthread_mutex_unlock(&lock);
    if (result < 0)
        nb_mailbox_take_back(work);
    return result;
}

void nb_offload_counts(int *thread_count, int *queue_count)
{
    pthread_mutex_lock(&lock);
    *thread_count = threads;
    *queue_count = queued;
    pthread_mutex_unlock(&lock);
}
