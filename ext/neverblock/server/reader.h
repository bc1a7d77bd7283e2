/* reader.h - from bytes to a complete request. Uses ruby.h.
 *
 * Read after: connection.h, http/head.h.
 */
#ifndef NB_SERVER_READER_H
#define NB_SERVER_READER_H

#include "server/connection.h"

/* A head that did not arrive in one read. */
typedef struct nb_partial {
    nb_head_t head;
    nb_field_t *fields;
    uint32_t capacity;
} nb_partial_t;

/* A request as the reader found it; valid until the next read of any connection. */
typedef struct {
    const char *bytes; /* its head, body_size bytes of its body, and what came after them */
    size_t size;
    bool in_scratch; /* whose bytes they are: the server's scratch, or else conn->in */
    const nb_head_t *head;
    const nb_field_t *fields;
    size_t body_size; /* 0: no body, or it is in conn->body */
    bool body_later;  /* the application's reads fetch it */
    int status;       /* the status of the refusal, and a clause for the client */
    const char *text;
} nb_incoming_t;

typedef enum {
    NB_ADVANCE_WAIT,    /* for more bytes */
    NB_ADVANCE_AGAIN,   /* more bytes have arrived, but others get their turn first */
    NB_ADVANCE_REQUEST, /* it is complete */
    NB_ADVANCE_REFUSE,  /* incoming says why */
    NB_ADVANCE_GONE     /* the client is gone, or what it sent cannot be kept */
} nb_advance_t;

/* Reads until there is a result. Called by a worker. */
nb_advance_t nb_reader_advance(nb_conn_t *conn, nb_incoming_t *incoming);
/* The request is in the env now: drops its bytes, keeps those of the next one. */
void nb_reader_consume(nb_conn_t *conn, const nb_incoming_t *incoming);
/* Reads once into scratch. Returns bytes, 0 if there are none now, -1 at the end or for an
 * error. */
ssize_t nb_reader_receive(nb_conn_t *conn);
/* Takes the byte that nb_reader_receive has left with the kernel: from now on closing the socket
 * resets nothing. */
void nb_reader_take_last(nb_conn_t *conn);
/* Tells a client that holds its body back to send it. head: bytes of the response's head, if that
 * waits to be sent. Returns 0, or -1 if the client is gone. */
int nb_reader_ask(nb_conn_t *conn, size_t head);
void nb_reader_free_partial(nb_conn_t *conn);

#endif
