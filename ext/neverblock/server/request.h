/* request.h - one request that a worker runs. Uses ruby.h.
 *
 * Read after: connection.h, reader.h.
 */
#ifndef NB_SERVER_REQUEST_H
#define NB_SERVER_REQUEST_H

#include "http/chunked.h"
#include "server/connection.h"
#include "server/reader.h"

/* How the client finds the end of a response's body. Decided once, by nb_response_head_finish. */
typedef enum {
    NB_FRAMING_UNDECIDED, /* no head has been made yet */
    NB_FRAMING_NONE,      /* no body: HEAD, 204, 304 */
    NB_FRAMING_LENGTH,    /* content-length: so many bytes */
    NB_FRAMING_CHUNKED,   /* we frame it */
    NB_FRAMING_CLOSE,     /* all to the end of the connection, or the application frames it */
    NB_FRAMING_UPGRADED   /* the socket becomes the application's */
} nb_framing_t;

/* It lies on the worker's stack. */
typedef struct nb_request {
    nb_conn_t *conn; /* NULL after a full hijack */
    VALUE env, exchange, fiber, input_file;
    VALUE input;   /* LazyInput or StreamedInput, or 0 */
    VALUE fetched; /* what LazyInput asked for, once it has arrived */
    nb_loan_t loan;
    VALUE headers, body;
    VALUE socket;                   /* of a full hijack, or 0 */
    nb_buffer_t head;               /* the response head being built */
    uint64_t started_ns, queued_ns; /* when it began to run, and how long it waited before */
    uint64_t answered_ns, ended_ns; /* its head was made; its body, made in parts, was complete */
    uint64_t left_ns;               /* of request_timeout, while fibers wait for the socket */
    uint64_t sent_bytes;
    size_t head_bytes;    /* of a head that was collected: while no byte of it is sent, and no */
    uint64_t sent_before; /* part follows it, an error may take its place. sent_bytes before it */
    int status;
    int refused_body; /* the status for a body that could not be taken */
    uint8_t minor;
    nb_framing_t framing;
    uint64_t length_left; /* of NB_FRAMING_LENGTH: bytes not yet sent */
    nb_chunked_t chunks;  /* if unchunks: of the application's body */
    bool unchunks;        /* the application sends chunks, which the client does not know */
    bool unchunked;       /* all of them, with the last */
    bool input_closed;    /* nobody reads the request's body any more */
    bool head_request, head_sent, hijacked, timed_out, complete;
    bool gone, told_gone; /* the client has closed its side; the fiber got an error for that */
    bool ended;           /* the connection has the whole response */
    bool writing;         /* the body goes out in parts: its head is out, its end is not */
    bool awaits_body;     /* one of server->body_count */
    bool over;            /* the application is done with it: nothing is raised for it any more */
    nb_list_t link;       /* server->running */
} nb_request_t;

/* The size of the response's head while it waits to be sent, with nothing behind it; or 0. */
static inline size_t nb_request_waiting_head(const nb_request_t *request)
{
    bool waits = request->head_sent && request->sent_bytes == request->sent_before;
    return waits ? request->head_bytes : 0;
}

/* Runs a complete request: env, application, answer. Raises only what ends more than the request.
 */
void nb_request_run(nb_server_t *server, nb_conn_t *conn, const nb_incoming_t *incoming);
void nb_request_init(void);

#endif
