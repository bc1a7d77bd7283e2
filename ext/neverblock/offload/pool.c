/* pool.c - native threads for what cannot wait. Pure C. Read after: pool.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "offload/pool.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SECONDS 5
#define STACK_BYTES (256 * 1024)

struct nb_mailbox {
    nb_list_t done;
    int wake_fd; /* -1 once closed */
    int running; /* work that has this mailbox and is not collected */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static nb_list_t queue = {&queue, &queue};
static int threads, idle, queued;

nb_mailbox_t *nb_mailbox_new(int wake_fd)
{
    nb_mailbox_t *mail = malloc(sizeof(*mail));
    if (mail) {
        *mail = (nb_mailbox_t){.wake_fd = wake_fd};
        nb_list_init(&mail->done);
    }
    return mail;
}

/* Called with the lock. */
static void free_if_unused(nb_mailbox_t *mail)
{
    if (mail->wake_fd < 0 && mail->running == 0)
        free(mail);
}

void nb_mailbox_close(nb_mailbox_t *mail)
{
    if (!mail)
        return;
    pthread_mutex_lock(&lock);
    while (!nb_list_empty(&mail->done)) {
        nb_work_t *work = nb_container_of(mail->done.next, nb_work_t, link);
        nb_list_remove(&work->link);
        mail->running--;
        work->drop(work);
    }
    mail->wake_fd = -1;
    free_if_unused(mail);
    pthread_mutex_unlock(&lock);
}

void nb_mailbox_collect(nb_mailbox_t *mail)
{
    nb_list_t done;
    nb_list_init(&done);
    pthread_mutex_lock(&lock);
    while (!nb_list_empty(&mail->done)) {
        nb_list_t *item = mail->done.next;
        nb_list_remove(item);
        nb_list_append(&done, item);
        mail->running--;
    }
    pthread_mutex_unlock(&lock);
    while (!nb_list_empty(&done)) {
        nb_work_t *work = nb_container_of(done.next, nb_work_t, link);
        nb_list_remove(&work->link);
        work->done(work);
    }
}

/* Called with the lock. */
static void deliver(nb_work_t *work)
{
    nb_mailbox_t *mail = work->mail;
    if (mail->wake_fd < 0) {
        mail->running--;
        work->drop(work);
        free_if_unused(mail);
        return;
    }
    uint64_t one = 1;
    nb_list_append(&mail->done, &work->link);
    ssize_t written = write(mail->wake_fd, &one, sizeof(one));
    (void)written; /* full means already signalled */
}

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
        pthread_mutex_lock(&lock);
        deliver(work);
    }
    threads--;
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Called with the lock. Signals stay with Ruby's own threads. */
static int start_thread(void)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
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
    pthread_mutex_lock(&lock);
    if (queued >= idle && threads < NB_OFFLOAD_THREADS)
        result = start_thread();
    if (result == 0 || threads > 0) {
        result = 0;
        work->mail = mail;
        mail->running++;
        queued++;
        nb_list_append(&queue, &work->link);
        pthread_cond_signal(&work_came);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void nb_offload_counts(int *thread_count, int *queue_count)
{
    pthread_mutex_lock(&lock);
    *thread_count = threads;
    *queue_count = queued;
    pthread_mutex_unlock(&lock);
}

void nb_offload_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work_came, NULL);
    nb_list_init(&queue);
    threads = idle = queued = 0;
}
