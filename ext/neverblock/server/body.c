/* body.c - receiving a request body: in memory while small, then in an unlinked file. Uses ruby.h.
 *
 * Read after: body.h.
 */
#include "server/body.h"
#include "base/clock.h"
#include "server/deadline.h"
#include "server/spool.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BODY_SHARE 16 /* of the memory for large bodies, one may have this part */

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return true;
}

int nb_body_start(nb_conn_t *conn, const nb_head_t *head)
{
    const nb_server_options_t *options = &conn->server->options;
    nb_body_t *body = calloc(1, sizeof(*body));
    if (!body)
        return -ENOMEM;
    body->spool = -1;
    body->expected = head->content_length;
    body->is_chunked = head->flags & NB_HEAD_CHUNKED;
    body->held = head->flags & NB_HEAD_EXPECT_CONTINUE;
    body->streamed = options->body_streaming &&
                     (body->is_chunked || body->expected > options->body_memory_bytes);
    body->kept = !body->streamed;
    nb_chunked_start(&body->chunked);
    conn->body = body;
    return 0;
}

void nb_loan_return(nb_server_t *server, nb_loan_t *loan)
{
    server->lent.memory_bytes -= loan->memory_bytes;
    server->lent.file_bytes -= loan->file_bytes;
    *loan = (nb_loan_t){0};
}

const char *nb_body_text(int status)
{
    switch (status) {
    case 400:
        return "the request body ended early, or is malformed";
    case 408:
        return "the request body came too slowly";
    case 413:
        return "the request body is too large";
    case 431:
        return "the chunk extensions and trailers of the request body are too long";
    case 503:
        return "there is no room for the request body at the moment";
    case 507:
        return "the request body cannot be stored";
    default:
        return "the request body is malformed";
    }
}

void nb_body_free(nb_conn_t *conn)
{
    nb_body_t *body = conn->body;
    if (!body)
        return;
    nb_spool_close(conn->server->loop, body->spool);
    nb_loan_return(conn->server, &body->loan);
    nb_buffer_free(&body->memory);
    free(body);
    conn->body = NULL;
}

/* Whether this many more bytes may be in memory: by the body's own allowance, or as a loan from the
 * server's, of which one body gets only a share. */
static bool fits_memory(nb_conn_t *conn, size_t size)
{
    nb_server_t *server = conn->server;
    nb_body_t *body = conn->body;
    uint64_t after = body->memory.size + size, total = server->options.bodies_memory_bytes;
    if (after <= server->options.body_memory_bytes)
        return true;
    if (after > total / BODY_SHARE || server->lent.memory_bytes + size > total)
        return false;
    server->lent.memory_bytes += size;
    body->loan.memory_bytes += size;
    return true;
}

static int not_stored(nb_server_t *server)
{
    server->body_errno = errno;
    return -507;
}

/* Returns 0 or a negative HTTP status. */
static int write_file(nb_conn_t *conn, const char *bytes, size_t size)
{
    nb_server_t *server = conn->server;
    nb_body_t *body = conn->body;
    if (server->lent.file_bytes + size > server->options.bodies_file_bytes)
        return -503;
    server->lent.file_bytes += size;
    body->loan.file_bytes += size;
    return write_all(body->spool, bytes, size) ? 0 : not_stored(server);
}

/* Moves what is in memory to a file. Returns 0 or a negative HTTP status. */
static int start_file(nb_conn_t *conn)
{
    nb_body_t *body = conn->body;
    nb_loan_t memory = {.memory_bytes = body->loan.memory_bytes};
    body->spool = nb_spool_open();
    if (body->spool < 0)
        return not_stored(conn->server);
    int error = write_file(conn, body->memory.bytes, body->memory.size);
    body->loan.memory_bytes = 0;
    nb_loan_return(conn->server, &memory);
    nb_buffer_free(&body->memory);
    return error;
}

/* Returns 0 or a negative HTTP status. */
static int add(nb_conn_t *conn, nb_body_t *body, const char *bytes, size_t size)
{
    const nb_server_options_t *options = &conn->server->options;
    body->received += size;
    if (body->received > options->body_max_bytes)
        return -413;
    if (body->spool < 0 && body->kept && !fits_memory(conn, size)) {
        int error = start_file(conn);
        if (error)
            return error;
    }
    if (body->spool >= 0)
        return write_file(conn, bytes, size);
    return nb_buffer_append(&body->memory, bytes, size) < 0 ? -503 : 0;
}

/* What the frames hold is moved together and added once: a client that sends chunks of one byte
 * must not cost a system call for each. */
static ssize_t feed_chunks(nb_conn_t *conn, nb_body_t *body, char *bytes, size_t size)
{
    size_t used = 0, count = 0;
    char *data = bytes;
    int result;
    do {
        nb_piece_t piece;
        result = nb_chunked_read(&body->chunked, bytes + used, size - used, &piece);
        if (result < 0)
            return -nb_chunked_status(result);
        if (!count)
            data = bytes + used + piece.at;
        else
            memmove(data + count, bytes + used + piece.at, piece.size);
        count += piece.size;
        used += piece.used;
    } while (result == NB_CHUNKED_DATA);
    int error = count ? add(conn, body, data, count) : 0;
    if (!error && body->chunked.left > conn->server->options.body_max_bytes - body->received)
        return -413; /* it is announced; no need to wait for the bytes */
    body->complete = result == NB_CHUNKED_DONE;
    return error ? error : (ssize_t)used;
}

ssize_t nb_body_feed(nb_conn_t *conn, char *bytes, size_t size)
{
    nb_body_t *body = conn->body;
    if (body->is_chunked)
        return feed_chunks(conn, body, bytes, size);
    uint64_t left = body->expected - body->received;
    if (size > left)
        size = (size_t)left;
    int error = add(conn, body, bytes, size);
    body->complete = body->received == body->expected;
    return error ? error : (ssize_t)size;
}

uint64_t nb_body_patience(const nb_conn_t *conn)
{
    const nb_server_options_t *options = &conn->server->options;
    const nb_body_t *body = conn->body;
    uint64_t timeout_ns = options->body_timeout_ns, allowed_ns = NB_NEVER;
    if (timeout_ns == NB_NEVER || !options->body_bytes_per_second)
        return timeout_ns;
    allowed_ns =
        timeout_ns + nb_clock_ns((double)body->received / (double)options->body_bytes_per_second);
    if (body->waited_ns >= allowed_ns)
        return 0;
    uint64_t left_ns = allowed_ns - body->waited_ns;
    return left_ns < timeout_ns ? left_ns : timeout_ns;
}

void nb_body_expect(nb_conn_t *conn)
{
    conn->body->since_ns = nb_loop_clock(conn->server->loop);
    nb_conn_deadline(conn, NB_DUE_BODY, nb_body_patience(conn));
}

void nb_body_expected(nb_conn_t *conn, uint64_t until_ns)
{
    nb_body_t *body = conn->body;
    if (body->since_ns && until_ns > body->since_ns)
        body->waited_ns += until_ns - body->since_ns;
    body->since_ns = 0;
}

bool nb_body_missing(const nb_conn_t *conn)
{
    return conn->body && !conn->body->complete;
}
