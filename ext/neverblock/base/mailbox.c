/* mailbox.c - the way of finished work back to its loop. Pure C. Read after: mailbox.h. */
#include "base/mailbox.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct nb_mailbox {
    nb_list_t done;
    int wake_fd; /* -1 once closed */
    int running; /* work that has this mailbox and is not collected */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all mailboxes; held for moments */
static pthread_once_t guarded = PTHREAD_ONCE_INIT;

/* A fork must not copy a half-linked list, nor a lock held by a thread that the child lacks. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void guard(void)
{
    pthread_atfork(before_fork, fork_in_parent, fork_in_child);
}

nb_mailbox_t *nb_mailbox_new(int wake_fd)
{
    pthread_once(&guarded, guard);
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

void nb_mailbox_expect(nb_mailbox_t *mail, nb_work_t *work)
{
    pthread_mutex_lock(&lock);
    work->mail = mail;
    mail->running++;
    pthread_mutex_unlock(&lock);
}

void nb_mailbox_take_back(nb_work_t *work)
{
    pthread_mutex_lock(&lock);
    work->mail->running--;
    free_if_unused(work->mail);
    pthread_mutex_unlock(&lock);
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

void nb_mailbox_deliver(nb_work_t *work)
{
    pthread_mutex_lock(&lock);
    deliver(work);
    pthread_mutex_unlock(&lock);
}
