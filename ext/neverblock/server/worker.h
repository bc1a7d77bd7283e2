/* worker.h - the pooled fibers that run requests. Uses ruby.h.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_WORKER_H
#define NB_SERVER_WORKER_H

#include "loop/wait.h"
#include "server/connection.h"

typedef struct nb_worker {
    nb_list_t link; /* server->idle, last in first out */
    nb_park_t *park;
    nb_server_t *server;
} nb_worker_t;

/* A connection has something to read: it waits for a worker, or is refused. */
void nb_worker_runnable(nb_conn_t *conn);
/* Before the poll: wakes the worker whose wake-up nb_worker_runnable deferred. */
void nb_worker_kick_now(nb_hook_t *hook);
/* Refuses those that have waited too long. */
void nb_worker_queue_due(nb_timer_t *timer);

#endif
