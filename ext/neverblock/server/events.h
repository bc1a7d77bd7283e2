/* events.h - how a connection begins, and the events that arrive for it. Uses ruby.h. Read after:
 * connection.h.
 */
#ifndef NB_SERVER_EVENTS_H
#define NB_SERVER_EVENTS_H

#include "server/connection.h"

/* How a client was accepted. */
typedef struct {
    const struct sockaddr *peer; /* NULL: not known */
    uint16_t port;               /* the listener's */
    bool local, https;
} nb_arrival_t;

/* Takes over fd (non-blocking). Closes it if there is no memory. */
nb_conn_t *nb_conn_open(nb_server_t *server, int fd, const nb_arrival_t *arrival);
/* If the client has closed its side, its request learns it, and may be cancelled. */
void nb_conn_tell_gone(nb_conn_t *conn);
/* The end of the tick: sends what was collected. */
void nb_conns_flush(nb_hook_t *hook);
/* Gives connections that had yielded their next turn. */
void nb_conns_go_on(nb_timer_t *timer);

#endif
