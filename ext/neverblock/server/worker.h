/* worker.h - the pooled fibers that run requests. Uses ruby.h.
 *
 * Read after: server.h. Used by: core.c. */
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
/* Before the poll: wakes the worker that nb_worker_runnable put off. */
void nb_worker_kick_now(nb_hook_t *hook);
/* Those who have waited too long are refused. */
void nb_worker_queue_due(nb_timer_t *timer);

#endif
