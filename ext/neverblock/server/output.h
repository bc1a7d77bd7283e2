/* output.h - a connection's pending output: what the socket does not take at once. Uses ruby.h.
 *
 * Nothing here closes a connection: that a client is gone is a verdict. connection.h has the same
 * functions for all files that are not below it.
 *
 * Read after: connection.h.
 */
#ifndef NB_SERVER_OUTPUT_H
#define NB_SERVER_OUTPUT_H

#include "server/connection.h"

/* What could not be written at once, in this order: bytes, strings, file. */
typedef struct nb_output {
    nb_list_t link; /* server->outputs: whose strings the server marks */
    nb_buffer_t bytes;
    size_t bytes_at;
    VALUE strings; /* Array of frozen Strings, or 0 */
    long index;    /* the string being written */
    size_t offset; /* bytes of it already written */
    int file;      /* -1: none */
    off_t file_at;
    uint64_t file_left;
    bool held; /* nb_output_hold */
} nb_output_t;

/* These return 0, or -1 if the client is gone. */

/* Writes what it can now, and keeps the rest. owners[i] is the String behind iov[i], or 0 for bytes
 * that are copied if they must wait. */
int nb_output_write(nb_conn_t *conn, struct iovec *iov, const VALUE *owners, int count);
/* Takes over file. */
int nb_output_file(nb_conn_t *conn, int file, off_t at, uint64_t size);
/* Collects bytes until the end of the tick, 64 KB at most. */
int nb_output_collect(nb_conn_t *conn, const char *bytes, size_t size);
/* What was collected stays until more is, or somebody writes it; an event of the socket is no
 * reason: a UNIX socket reports room whenever its client has read. */
void nb_output_hold(nb_conn_t *conn);
/* Puts bytes in front of so many of the collected bytes, the last ones, which are all there. */
int nb_output_insert(nb_conn_t *conn, const char *bytes, size_t size, size_t behind);
/* Drops so many of the collected bytes, the last ones. Returns whether they were all there. */
bool nb_output_drop(nb_conn_t *conn, size_t size);
/* Writes what is waiting. */
int nb_output_flush(nb_conn_t *conn);

/* It has had its turn, and continues after the other connections. */
void nb_output_later(nb_conn_t *conn);
bool nb_output_empty(const nb_conn_t *conn);
/* Whether so much is waiting that whoever writes more must wait, too. */
bool nb_output_full(const nb_conn_t *conn);
void nb_output_free(nb_conn_t *conn);

#endif
