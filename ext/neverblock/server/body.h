/* body.h - a request body that did not come with its head: in memory, then in a file. Uses ruby.h.
 *
 * Read after: connection.h, http/chunked.h.
 */
#ifndef NB_SERVER_BODY_H
#define NB_SERVER_BODY_H

#include <ruby.h> /* first */
#include "http/chunked.h"
#include "server/connection.h"

typedef struct nb_body {
    nb_buffer_t memory;
    int spool; /* an unlinked file, once the body exceeds memory; else -1 */
    uint64_t received, expected;
    nb_loan_t loan;
    uint64_t since_ns; /* when the wait for the client's next bytes began */
    uint64_t waited_ns;
    nb_chunked_t chunked;
    bool is_chunked, complete;
    bool streamed; /* the application reads it in parts, */
    bool kept;     /* after all of it has arrived, or as a whole */
    off_t taken;   /* bytes of the file read so far, in parts */
    bool held;     /* the client waits for "100 Continue" */
} nb_body_t;

int nb_body_start(nb_conn_t *conn, const nb_head_t *head);
/* Takes bytes of the body, and may move them about. Returns how many it used, or a negative HTTP
 * status. */
ssize_t nb_body_feed(nb_conn_t *conn, char *bytes, size_t size);
void nb_body_free(nb_conn_t *conn);
/* How long to wait for more: body_timeout, or less if it has come too slowly so far. */
uint64_t nb_body_patience(const nb_conn_t *conn);
/* From now on, we wait for the client. */
void nb_body_expect(nb_conn_t *conn);
/* The client is no longer waited for. */
void nb_body_expected(nb_conn_t *conn, uint64_t until_ns);
/* Whether bytes of the request's body are still to come. */
bool nb_body_missing(const nb_conn_t *conn);
void nb_loan_return(nb_server_t *server, nb_loan_t *loan);
/* One clause that tells the client why its body is refused with this status. */
const char *nb_body_text(int status);

#endif
