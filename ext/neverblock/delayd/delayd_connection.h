/* delayd_connection.h - one client of the delay server. Pure C.
 *
 *   READING --request--> DELAYED --its time--> (answer) --all sent--> READING
 *      |                                          `--no room--> WRITING --room--> READING
 *      `-- 400, or a close with input left --> LINGERING --end of input, or 1 s--> closed
 *
 * Read after: delayd.h.
 */
#ifndef NB_DELAYD_CONNECTION_H
#define NB_DELAYD_CONNECTION_H

#include "delayd/delayd.h"

typedef enum {
    NB_DELAYD_READING,   /* waits for a request, or for the rest of one */
    NB_DELAYD_DELAYED,   /* has a request that is not due yet */
    NB_DELAYD_WRITING,   /* has an answer that the socket does not take yet */
    NB_DELAYD_LINGERING, /* has sent its last answer; drops what still arrives */
    NB_DELAYD_BROKEN,    /* to be closed at the end of its turn */
} nb_delayd_state_t;

typedef struct {
    nb_delayd_t *server;
    nb_list_t open;   /* in server->open */
    nb_list_t eager;  /* in server->eager, or alone */
    nb_timer_t timer; /* DELAYED: when to answer; LINGERING: when to stop */
    int fd;
    nb_delayd_state_t state;
    bool readable;                /* epoll said so, and recv has not emptied the socket since */
    bool hung_up;                 /* epoll said that the client will send no more */
    bool ended;                   /* recv has read the very end */
    bool closing;                 /* closes once the answers are sent */
    bool refused;                 /* by a 400: more of the request may be on its way */
    bool watches_room;            /* epoll also reports when there is room to write */
    nb_delayd_request_t request;  /* DELAYED: the one to answer */
    uint64_t drop_bytes;          /* of a request's own body, still to come */
    uint64_t body_bytes, body_at; /* the answer's body: how long, how much is sent */
    char *unread, *unsent;        /* what is left over from the server's shared buffers, or NULL */
    uint32_t unread_bytes, unsent_bytes, unsent_at;
} nb_delayd_connection_t;

/* Takes over the accepted, non-blocking fd. Returns 0, or -errno after closing the fd. */
int nb_delayd_connection_open(nb_delayd_t *server, int fd);

/* Called with what epoll reports. May close and free the connection. */
void nb_delayd_connection_event(nb_delayd_connection_t *conn, uint32_t events);

/* Puts the connection into the eager list, once. */
static inline void nb_delayd_want_turn(nb_delayd_connection_t *conn)
{
    if (nb_list_empty(&conn->eager))
        nb_list_append(&conn->server->eager, &conn->eager);
}

/* Gives a connection from the eager list its turn. May close and free it. */
void nb_delayd_connection_turn(nb_delayd_connection_t *conn);

void nb_delayd_connection_close(nb_delayd_connection_t *conn);

#endif
