/* mailbox.h - carries work that other threads have done back to a loop. Pure C.
 *
 * A worker delivers finished work into the mailbox of the loop that asked for it, and writes the
 * loop's wake fd; the loop collects the work on its own thread. So loop/ does not know workers, and
 * workers do not know the loop.
 */
#ifndef NB_BASE_MAILBOX_H
#define NB_BASE_MAILBOX_H

#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct nb_mailbox nb_mailbox_t;

typedef struct nb_work {
    nb_list_t link; /* in the worker's queue, then in the mailbox */
    nb_mailbox_t *mail;
    bool slow;                      /* may take as long as a name server does, not only a disk */
    bool queued;                    /* it has not begun; the worker's */
    void (*run)(struct nb_work *);  /* on the worker's thread: no Ruby, no lock of ours held */
    void (*done)(struct nb_work *); /* on the loop's thread, from nb_mailbox_collect */
    void (*drop)(struct nb_work *); /* instead of done when the loop is gone: frees; any thread */
} nb_work_t;

/* wake_fd - written (8 bytes) when work is done. Returns NULL if there is no memory. */
nb_mailbox_t *nb_mailbox_new(int wake_fd);
/* No work is delivered any more. The mailbox is freed when the last expected work has been
 * delivered. */
void nb_mailbox_close(nb_mailbox_t *mail);
/* Calls done for all finished work. */
void nb_mailbox_collect(nb_mailbox_t *mail);

/* Sets the work's mailbox, which stays allocated until the work is delivered or taken back. */
void nb_mailbox_expect(nb_mailbox_t *mail, nb_work_t *work);
/* The work will not run after all. */
void nb_mailbox_take_back(nb_work_t *work);
/* Delivers finished work. Any thread. */
void nb_mailbox_deliver(nb_work_t *work);

#endif
