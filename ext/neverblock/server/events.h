/* events.h - how a connection begins, and what comes for it. Uses ruby.h. Read after: connection.h.
 * Used by: listener.c, core.c. */
#ifndef NB_SERVER_EVENTS_H
#define NB_SERVER_EVENTS_H

#include "server/connection.h"

/* How a client came in. */
typedef struct {
    const struct sockaddr *peer; /* NULL: not known */
    uint16_t port;               /* the listener's */
    bool local, https;
} nb_arrival_t;

/* Takes over fd (non-blocking). Closes it when there is no memory. */
nb_conn_t *nb_conn_open(nb_server_t *server, int fd, const nb_arrival_t *arrival);
/* The end of the tick: what was collected goes out. */
void nb_conns_flush(nb_hook_t *hook);
/* Those who gave way have their next turn. */
void nb_conns_go_on(nb_timer_t *timer);

#endif
