/* pool.h - native threads for what cannot wait: getaddrinfo, cold file pages. Pure C.
 *
 * Threads are started when work waits and end after five idle seconds. Finished work goes into the
 * mailbox of the loop that asked, whose wake fd is then written.
 * Used by: loop.c, hooks/resolve.c, hooks/io.c.
 */
#ifndef NB_OFFLOAD_POOL_H
#define NB_OFFLOAD_POOL_H

#include "base/list.h"
#include <stdint.h>

typedef struct nb_mailbox nb_mailbox_t;

typedef struct nb_work {
    nb_list_t link;
    nb_mailbox_t *mail;
    void (*run)(struct nb_work *);  /* on a pool thread: no Ruby, no lock of ours held */
    void (*done)(struct nb_work *); /* on the loop's thread, from nb_mailbox_collect */
    void (*drop)(struct nb_work *); /* instead of done when the loop is gone: frees; any thread */
} nb_work_t;

#define NB_OFFLOAD_THREADS 64 /* at most; each mostly waits for a name server or a disk */

/* wake_fd - written (8 bytes) when work is done. Returns NULL without memory. */
nb_mailbox_t *nb_mailbox_new(int wake_fd);
/* No work is delivered any more; freed when the last running work has ended. */
void nb_mailbox_close(nb_mailbox_t *mail);
/* Calls done of all finished work. */
void nb_mailbox_collect(nb_mailbox_t *mail);

/* Queues the work. Returns 0, or -errno when no thread could be started and none runs. */
int nb_offload(nb_mailbox_t *mail, nb_work_t *work);

/* Threads alive and work waiting, for stats. */
void nb_offload_counts(int *threads, int *queued);

/* In a forked child: the threads are gone; so is the work they had. */
void nb_offload_after_fork(void);

#endif
