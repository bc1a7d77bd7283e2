/* reader.c - from bytes to a complete request: head, then body. Ruby.
 *
 * Bytes are read into the server's scratch and the head is read there; only what is not complete
 * is copied into the connection. Suggested order: nb_reader_advance (last but one), advance_head,
 * after_head, advance_body.
 *
 * Read after: server.h, http/head.h. Used by: worker.c, connection.c, exchange.c.
 */
#include "server/server.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READS_A_TURN 16 /* 1 MB of a body; then the other connections have theirs */

ssize_t nb_reader_receive(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    for (;;) {
        ssize_t size = recv(conn->watch.fd, server->scratch, NB_SCRATCH_BYTES, 0);
        if (size > 0) {
            /* A short read has emptied the socket: the next bytes bring a new edge. */
            conn->readable = size == NB_SCRATCH_BYTES || conn->ended;
            server->counters.request_bytes += (uint64_t)size;
            return size;
        }
        if (size < 0 && errno == EINTR)
            continue;
        conn->readable = false;
        if (size < 0 && errno == EAGAIN)
            return 0;
        if (size < 0)
            server->counters.resets++;
        conn->hung_up = true;
        return -1;
    }
}

static nb_partial_t *keep_partial(nb_conn_t *conn, const nb_head_t *head, const nb_field_t *fields)
{
    nb_partial_t *partial = calloc(1, sizeof(*partial));
    uint32_t capacity = head->field_count < 4 ? 4 : head->field_count;
    if (!partial)
        return NULL;
    partial->fields = malloc(capacity * sizeof(nb_field_t));
    if (!partial->fields) {
        free(partial);
        return NULL;
    }
    partial->head = *head;
    partial->capacity = capacity;
    memcpy(partial->fields, fields, head->field_count * sizeof(nb_field_t));
    return conn->partial = partial;
}

static bool grow_fields(nb_partial_t *partial)
{
    uint32_t capacity = partial->capacity * 2;
    nb_field_t *fields = realloc(partial->fields, capacity * sizeof(nb_field_t));
    if (!fields)
        return false;
    partial->fields = fields;
    partial->capacity = capacity;
    return true;
}

/* Reads on in the head; bytes are all that has come of this request and after it. */
static int read_head(nb_conn_t *conn, const char *bytes, size_t size)
{
    nb_server_t *server = conn->server;
    const nb_head_limits_t *limits = &server->options.head;
    nb_partial_t *partial = conn->partial;
    if (!partial) {
        nb_head_start(&server->head);
        return nb_head_read(&server->head, bytes, size, server->fields, limits->field_count,
                            limits);
    }
    for (;;) {
        int result =
            nb_head_read(&partial->head, bytes, size, partial->fields, partial->capacity, limits);
        if (result != NB_HEAD_FIELDS_FULL)
            return result;
        if (!grow_fields(partial))
            return NB_HEAD_LONG_HEAD;
    }
}

static nb_advance_t give_up(nb_conn_t *conn)
{
    nb_conn_close(conn);
    return NB_ADVANCE_GONE;
}

static nb_advance_t refuse(nb_conn_t *conn, int status, const char *text)
{
    nb_conn_refuse(conn, status, text);
    return NB_ADVANCE_GONE;
}

/* The head is complete and so is the body, or the application will ask for it. */
static nb_advance_t whole_request(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_body_t *body = conn->body;
    incoming->head = conn->partial ? &conn->partial->head : &conn->server->head;
    incoming->fields = conn->partial ? conn->partial->fields : conn->server->fields;
    if (!incoming->body)
        incoming->used = incoming->head->size;
    incoming->body_later = body && !body->complete;
    return NB_ADVANCE_REQUEST;
}

/* Moves everything that lies in scratch to conn->in, and the parse state beside it. */
static bool leave_scratch(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    if (incoming->in_scratch) {
        if (nb_buffer_append(&conn->in, server->scratch, incoming->in_scratch) < 0)
            return false;
        incoming->in_scratch = 0;
    }
    incoming->bytes = conn->in.bytes;
    return conn->partial || keep_partial(conn, &server->head, server->fields);
}

/* After the head in conn->in come bytes of the body: feeds them and takes them out. */
static int feed_rest(nb_conn_t *conn, size_t head_size)
{
    size_t rest = conn->in.size - head_size;
    ssize_t used = rest ? nb_body_feed(conn, conn->in.bytes + head_size, rest) : 0;
    if (used < 0)
        return (int)used;
    memmove(conn->in.bytes + head_size, conn->in.bytes + head_size + used, rest - (size_t)used);
    conn->in.size -= (size_t)used;
    return 0;
}

/* Reads body bytes until it is complete or the socket is empty, or others shall have their turn. */
static nb_advance_t advance_body(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    for (int reads = 0;; reads++) {
        if (reads == READS_A_TURN) {
            nb_conn_enqueue(conn);
            return NB_ADVANCE_WAIT;
        }
        ssize_t size = nb_reader_receive(conn);
        if (size < 0)
            return give_up(conn);
        if (size == 0)
            return NB_ADVANCE_WAIT;
        ssize_t used = nb_body_feed(conn, server->scratch, (size_t)size);
        if (used < 0)
            return refuse(conn, (int)-used, "the request body is malformed or too large");
        nb_conn_deadline(conn, server->options.body_timeout_ns);
        if (!conn->body->complete) {
            if (conn->readable)
                continue;
            return NB_ADVANCE_WAIT;
        }
        if (used < size &&
            nb_buffer_append(&conn->in, server->scratch + used, (size_t)(size - used)) < 0)
            return give_up(conn);
        incoming->bytes = conn->in.bytes;
        return whole_request(conn, incoming);
    }
}

static nb_advance_t after_head(nb_conn_t *conn, nb_incoming_t *incoming, size_t size)
{
    nb_server_t *server = conn->server;
    const nb_head_t *head = conn->partial ? &conn->partial->head : &server->head;
    if (head->form == NB_TARGET_AUTHORITY)
        return refuse(conn, 501, "CONNECT is not spoken here: this is no proxy");
    if (!(head->flags & NB_HEAD_CHUNKED) && !head->content_length)
        return whole_request(conn, incoming);
    if (head->content_length > server->options.body_max_bytes)
        return refuse(conn, 413, "the request body is too large");
    size_t rest = size - head->size;
    if (!(head->flags & NB_HEAD_CHUNKED) && rest >= head->content_length &&
        head->content_length <= server->options.body_memory_bytes) {
        incoming->body = incoming->bytes + head->size;
        incoming->body_size = (size_t)head->content_length;
        incoming->used = head->size + incoming->body_size;
        return whole_request(conn, incoming);
    }
    if (!leave_scratch(conn, incoming) || nb_body_start(conn, &conn->partial->head) < 0)
        return refuse(conn, 503, "no memory for the request body");
    int error = feed_rest(conn, conn->partial->head.size);
    if (error)
        return refuse(conn, -error, "the request body is malformed or too large");
    if (conn->body->complete || conn->body->held || conn->body->streamed)
        return whole_request(conn, incoming);
    conn->state = NB_CONN_BODY;
    nb_conn_deadline(conn, server->options.body_timeout_ns);
    return conn->readable ? advance_body(conn, incoming) : NB_ADVANCE_WAIT;
}

/* Part of a head is here: it waits in conn->in. */
static nb_advance_t wait_for_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    if (!leave_scratch(conn, incoming))
        return give_up(conn);
    if (conn->state == NB_CONN_IDLE) {
        conn->state = NB_CONN_HEAD;
        nb_conn_deadline(conn, conn->server->options.header_timeout_ns);
    }
    return NB_ADVANCE_WAIT;
}

static nb_advance_t advance_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    bool fresh = conn->in.size > 0 && !conn->partial; /* left over from the request before */
    for (;;) {
        size_t size = conn->in.size;
        if (!fresh) {
            ssize_t received = nb_reader_receive(conn);
            if (received < 0)
                return give_up(conn);
            if (received == 0)
                return NB_ADVANCE_WAIT;
            incoming->in_scratch = (size_t)received;
            if (size && (nb_buffer_append(&conn->in, server->scratch, (size_t)received) < 0))
                return give_up(conn);
            if (size)
                incoming->in_scratch = 0;
            size += (size_t)received;
        }
        fresh = false;
        incoming->bytes = incoming->in_scratch ? server->scratch : conn->in.bytes;
        int result = read_head(conn, incoming->bytes, size);
        if (result == NB_HEAD_DONE)
            return after_head(conn, incoming, size);
        if (result < 0)
            return refuse(conn, nb_head_status(result), nb_head_text(result));
        nb_advance_t advance = wait_for_head(conn, incoming);
        if (advance != NB_ADVANCE_WAIT || !conn->readable)
            return advance;
    }
}

nb_advance_t nb_reader_advance(nb_conn_t *conn, nb_incoming_t *incoming)
{
    *incoming = (nb_incoming_t){0};
    return conn->state == NB_CONN_BODY ? advance_body(conn, incoming)
                                       : advance_head(conn, incoming);
}

void nb_reader_consume(nb_conn_t *conn, const nb_incoming_t *incoming)
{
    if (incoming->in_scratch) {
        size_t rest = incoming->in_scratch - incoming->used;
        if (rest && nb_buffer_append(&conn->in, conn->server->scratch + incoming->used, rest) < 0)
            conn->keep = false;
    } else {
        size_t rest = conn->in.size - incoming->used;
        if (rest)
            memmove(conn->in.bytes, conn->in.bytes + incoming->used, rest);
        conn->in.size = rest;
        if (!rest)
            nb_buffer_free(&conn->in);
    }
    if (conn->partial) {
        free(conn->partial->fields);
        free(conn->partial);
        conn->partial = NULL;
    }
}
