/* transport.h - whatever carries a connection's bytes to the client (TLS). Uses ruby.h.
 *
 * The socket pair between the two reports an end, but not a broken connection. Either side may be
 * gone before the other.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_TRANSPORT_H
#define NB_SERVER_TRANSPORT_H

#include "server/server.h"

typedef struct nb_transport {
    nb_conn_t *conn; /* NULL: the connection has ended */
    bool cut;        /* the answer broke off, and only the end of the connection would show it */
    bool detached;   /* a hijack has taken the socket out of the server */
} nb_transport_t;

/* An NB::Server::Transport for conn. */
VALUE nb_transport_new(nb_conn_t *conn);
/* The connection ends. */
void nb_transport_leave(nb_conn_t *conn);
void nb_transport_init(VALUE server_module);

#endif
