/* connection.h - a connection: its states, what it sends, and how it ends. Uses ruby.h.
 *
 *   IDLE ──bytes──▶ HEAD ──head──▶ BODY ──complete──▶ RUN ──answer──▶ WRITE ──sent──▶ IDLE
 *     └────────────────whole request in one read────────▲      └──all sent at once──────▲
 *
 * Why it ends, who finds that out, and what is done. The files below connection.c return a verdict
 * and end nothing; their callers do.
 *
 *   the client closed, or reset, between or during requests   reader.c    closed
 *   nothing came: no first byte, no end of lingering          deadline.c  closed
 *   the client took no byte of the answer for write_timeout   deadline.c  closed
 *   sending failed                                            output.c    closed
 *   the head or body came too late (408)                      deadline.c  refused
 *   what came is no request, or too large (4xx, 5xx)          reader.c    refused
 *   no room in the queue, or too long in it (503)             worker.c    refused
 *   the last answer is sent                                   request.c   closed, or lingers while
 *                                                                         the client still sends
 *   the answer broke off                                      request.c   closed; reset if only the
 *                                                                         end tells its length
 *   the application took the socket                           exchange.c  detached: the fd lives on
 *   the server stops; a child was forked                      core.c, forked.c  closed
 *
 * Refused (refusal.c) means: it gets an answer of ours, then lingers until the client has closed or
 * a time limit is over, then it is closed. nb_conn_close frees it, unless a worker has its request.
 * In that case the struct stays, without an fd and in the state CLOSED, and the worker frees it
 * after the request (request.c).
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_CONNECTION_H
#define NB_SERVER_CONNECTION_H

#include "server/server.h"

struct nb_body;
struct nb_output;
struct nb_partial;
struct nb_request;
struct iovec;

typedef enum {
    NB_CONN_IDLE,   /* between requests */
    NB_CONN_HEAD,   /* part of a head has arrived */
    NB_CONN_BODY,   /* the head has arrived, the body not yet */
    NB_CONN_RUN,    /* a worker runs its request */
    NB_CONN_WRITE,  /* the answer is complete but not all written; no worker */
    NB_CONN_LINGER, /* refused; what still comes is thrown away so that the answer arrives */
    NB_CONN_CLOSED  /* no fd any more; its worker frees it */
} nb_conn_state_t;

struct nb_conn {
    nb_watch_t watch;
    nb_timer_t timer;
    nb_server_t *server;
    nb_list_t link;       /* server->connections */
    nb_list_t queue;      /* server->runnable, while it waits for a worker */
    nb_list_t dirty;      /* server->dirty, while bytes wait for the end of the tick */
    uint64_t deadline_ns; /* when the timer is due; it may fire earlier */
    int unacknowledged;   /* bytes that the client had not acknowledged when the deadline was set */
    uint64_t since_ns;    /* when it came into the queue, or began to linger */
    uint64_t requests, thrown_away; /* bytes, while it lingers */
    struct nb_request *request;     /* on the worker's stack, in RUN */
    nb_list_t waiters;              /* fibers that wait for this socket: body or drain */
    struct nb_partial *partial;
    struct nb_body *body;
    struct nb_output *output;
    struct nb_transport *transport; /* brings the bytes to the client (TLS), or NULL */

    nb_buffer_t in;     /* unused bytes: part of a head, or the next requests */
    uint8_t state, due; /* nb_conn_state_t; nb_due_t: what comes at deadline_ns */
    bool readable;      /* an event said so, and no read has come up short since then */
    bool ended;         /* an event said that the client has closed its side */
    bool hung_up;       /* and a read has reached that end */
    bool broken;        /* a call has shown that the client has reset it */
    bool writable;      /* false after EAGAIN */
    bool until_close;   /* only closing it shows the client that the answer is complete */
    bool keep;          /* keep alive after the present answer */
    bool more;          /* its client may send another request: it has not said the opposite */
    bool local;         /* UNIX socket */
    bool holds_last;    /* each read leaves its last byte with the kernel: see reader.c */
    bool last_held;     /* it does so now */
    bool https;
    bool proxied;   /* its proxy is still to say who the client is */
    uint8_t family; /* of peer: AF_INET, AF_INET6 or 0 */
    uint16_t port;  /* the listener's */
    unsigned char peer[16];
};

/* A call has shown that the socket has no bytes (NB_READABLE), or no room (NB_WRITABLE): the next
 * event will tell when it has. */
static inline void nb_conn_dry(nb_conn_t *conn, int mask)
{
    if (mask & NB_READABLE)
        conn->readable = false;
    if (mask & NB_WRITABLE)
        conn->writable = false;
    nb_fdtable_again(&conn->server->loop->fds, &conn->watch, mask);
}

/* Counts it once: after a read, the write of the answer fails, too. */
static inline void nb_conn_broke(nb_conn_t *conn)
{
    conn->server->counters.resets += !conn->broken;
    conn->broken = true;
}

/* --- sending: output.c; the connection is closed if that fails ------------------------------- */

/* All return 0, or -1 if the connection is now closed. */
int nb_conn_write(nb_conn_t *conn, struct iovec *iov, const VALUE *owners, int count);
int nb_conn_write_file(nb_conn_t *conn, int file, off_t at, uint64_t size);
int nb_conn_collect(nb_conn_t *conn, const char *bytes, size_t size);
int nb_conn_flush(nb_conn_t *conn);
/* The worker waits until everything is written. Raises Errno::EPIPE if the client is gone. */
void nb_conn_drain(nb_conn_t *conn);

/* --- continuing, and ending ------------------------------------------------------------------ */

/* It waits for a request. */
void nb_conn_idle(nb_conn_t *conn);
/* The answer is complete: takes the next request, writes the rest, or closes. */
void nb_conn_finish(nb_conn_t *conn);
/* Only the connection's end marks the end of the answer. Until the answer is whole, anything that
 * closes the fd, even the death of the process, resets the connection, so no client takes a part
 * for the whole. A UNIX socket needs holds_last for that. */
void nb_conn_until_close(nb_conn_t *conn, bool until_close);
/* Closing a socket with unread bytes resets it, and the client may never see the answer. So the
 * sending side is shut, and what still comes is read and dropped for a while (RFC 9112 9.6). */
void nb_conn_linger(nb_conn_t *conn);
void nb_conn_throw_away(nb_conn_t *conn);
void nb_conn_close(nb_conn_t *conn);
/* Frees a closed connection that no worker has. */
void nb_conn_free(nb_conn_t *conn);
/* Takes the socket away from the server, for a hijack. The caller owns the fd. */
int nb_conn_detach(nb_conn_t *conn);

#endif
