/* queue.h - connections that wait for a worker, first in, first out. Uses ruby.h. Read after:
 * connection.h.
 */
#ifndef NB_SERVER_QUEUE_H
#define NB_SERVER_QUEUE_H

#include "server/connection.h"

void nb_queue_add(nb_conn_t *conn);
void nb_queue_remove(nb_conn_t *conn);
/* The connection that has waited longest; NULL if none waits. */
nb_conn_t *nb_queue_first(const nb_server_t *server);
/* Sets the timer for the first one, unless it is set. */
void nb_queue_expect(nb_server_t *server);

#endif
