/* pool.h - native threads for what cannot wait: name lookups, disks, large files' ends. Pure C.
 *
 * Threads start when work waits, and end after five idle seconds. Finished work goes into the
 * mailbox of the loop that asked. A forked child has neither the threads nor the work they had.
 * Read after: base/mailbox.h.
 */
#ifndef NB_OFFLOAD_POOL_H
#define NB_OFFLOAD_POOL_H

#include "base/mailbox.h"

#define NB_OFFLOAD_THREADS 64 /* at most; each mostly waits for a name server or a disk */
#define NB_OFFLOAD_SLOW 56 /* of these for slow work: no disk waits until a name server answers */

/* Queues the work. Returns 0, or -errno if no thread could be started and none runs. */
int nb_offload(nb_mailbox_t *mail, nb_work_t *work);

/* Takes work out of the queue if it has not begun: it will neither run nor be done. Returns whether
 * it was there. */
bool nb_offload_withdraw(nb_work_t *work);

/* Threads alive and work waiting, for stats. */
void nb_offload_counts(int *threads, int *queued);

#endif
