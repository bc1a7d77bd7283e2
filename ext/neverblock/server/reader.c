/* reader.c - from bytes to a complete request: head, then body. Uses ruby.h.
 *
 * Bytes are read into the server's scratch, where the head is parsed; only an incomplete request is
 * copied into the connection. Nothing here ends a connection: the worker acts on the verdict.
 * Suggested order: nb_reader_advance, advance_head, after_head, advance_body.
 *
 * Read after: reader.h.
 */
#include "server/reader.h"
#include "http/proxied.h"
#include "loop/chaos.h"
#include "server/body.h"
#include "server/deadline.h"
#include "server/output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READS_A_TURN 16 /* 1 MB of a body; then the other connections have theirs */

void nb_reader_take_last(nb_conn_t *conn)
{
    char last;
    if (conn->last_held && !conn->server->forked) /* in a child the byte is the parent's, too */
        (void)!recv(conn->watch.fd, &last, 1, MSG_DONTWAIT);
    conn->last_held = false;
}

/* A UNIX socket knows no linger, and only one that is closed with unread bytes resets the other
 * side. So where a client may depend on that reset, the last byte stays unread. */
static ssize_t receive(nb_conn_t *conn, size_t most)
{
    char *scratch = conn->server->scratch;
    nb_reader_take_last(conn);
    if (!conn->holds_last)
        return recv(conn->watch.fd, scratch, most, 0);
    ssize_t size = recv(conn->watch.fd, scratch, most, MSG_PEEK);
    for (ssize_t taken = 0, more; taken < size - 1; taken += more) {
        more = recv(conn->watch.fd, scratch + taken, (size_t)(size - 1 - taken), 0);
        if (more <= 0)
            return more;
    }
    conn->last_held = size > 0;
    return size;
}

ssize_t nb_reader_receive(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    for (;;) {
        size_t most = nb_chaos_size(NB_SCRATCH_BYTES);
        ssize_t size = receive(conn, most);
        if (size > 0) {
            /* A short read has emptied the socket: the next bytes bring a new edge. */
            conn->readable = (size_t)size == most || conn->ended;
            if (!conn->readable)
                nb_conn_dry(conn, NB_READABLE);
            server->counters.request_bytes += (uint64_t)size;
            return size;
        }
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN) {
            nb_conn_dry(conn, NB_READABLE);
            return 0;
        }
        conn->readable = false;
        if (size < 0 && conn->state != NB_CONN_IDLE && conn->state != NB_CONN_LINGER)
            nb_conn_broke(conn);
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

/* Continues to parse the head; bytes are all that has arrived of this request and after it. */
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

static nb_advance_t refuse(nb_conn_t *conn, nb_incoming_t *incoming, int status, const char *text)
{
    incoming->head = &conn->server->head; /* unless there is conn->partial */
    incoming->status = status;
    incoming->text = text;
    return NB_ADVANCE_REFUSE;
}

/* The head is complete, and so is the body, or the application will ask for it. */
static nb_advance_t whole_request(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_body_t *body = conn->body;
    incoming->head = conn->partial ? &conn->partial->head : &conn->server->head;
    incoming->fields = conn->partial ? conn->partial->fields : conn->server->fields;
    incoming->body_later = body && (!body->complete || (body->streamed && body->kept));
    return NB_ADVANCE_REQUEST;
}

static void lies_in_connection(nb_conn_t *conn, nb_incoming_t *incoming)
{
    incoming->bytes = conn->in.bytes;
    incoming->size = conn->in.size;
    incoming->in_scratch = false;
}

/* The bytes and the parse state become the connection's. */
static bool leave_scratch(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    if (incoming->in_scratch && nb_buffer_append(&conn->in, incoming->bytes, incoming->size) < 0)
        return false;
    lies_in_connection(conn, incoming);
    return conn->partial || keep_partial(conn, &server->head, server->fields);
}

/* In conn->in, bytes of the body follow the head: consumes them. */
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

static nb_advance_t wait_for_body(nb_conn_t *conn)
{
    nb_body_expect(conn);
    return NB_ADVANCE_WAIT;
}

/* Reads body bytes until the body is complete, the socket is empty or its turn is over. */
static nb_advance_t advance_body(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    nb_body_expected(conn, conn->since_ns);
    for (int reads = 0;; reads++) {
        if (reads == READS_A_TURN) {
            nb_body_expect(conn);
            return NB_ADVANCE_AGAIN;
        }
        ssize_t size = nb_reader_receive(conn);
        if (size < 0)
            return NB_ADVANCE_GONE;
        if (size == 0)
            return wait_for_body(conn);
        ssize_t used = nb_body_feed(conn, server->scratch, (size_t)size);
        if (used < 0)
            return refuse(conn, incoming, (int)-used, nb_body_text((int)-used));
        if (!conn->body->complete) {
            if (conn->readable)
                continue;
            return wait_for_body(conn);
        }
        if (used < size &&
            nb_buffer_append(&conn->in, server->scratch + used, (size_t)(size - used)) < 0)
            return NB_ADVANCE_GONE;
        lies_in_connection(conn, incoming);
        return whole_request(conn, incoming);
    }
}

int nb_reader_ask(nb_conn_t *conn, size_t head)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    conn->body->held = false;
    return head ? nb_output_insert(conn, text, sizeof(text) - 1, head)
                : nb_output_collect(conn, text, sizeof(text) - 1);
}

/* Whether the application may run before the body has arrived. A slow client holds a fiber until
 * then, and some fibers are reserved for other clients. */
static bool begins_early(const nb_conn_t *conn)
{
    const nb_server_t *server = conn->server;
    return (conn->body->held || conn->body->streamed) &&
           server->body_count < server->options.body_fibers;
}

static nb_advance_t after_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    const nb_head_t *head = conn->partial ? &conn->partial->head : &server->head;
    conn->holds_last = conn->holds_last && !head->minor; /* it costs two system calls and a copy */
    if (!conn->holds_last)
        nb_reader_take_last(conn);
    if (head->form == NB_TARGET_AUTHORITY)
        return refuse(conn, incoming, 501, "CONNECT is not spoken here: this is no proxy");
    if (!(head->flags & NB_HEAD_CHUNKED) && !head->content_length)
        return whole_request(conn, incoming);
    if (head->content_length > server->options.body_max_bytes)
        return refuse(conn, incoming, 413, "the request body is too large");
    if (!(head->flags & NB_HEAD_CHUNKED) && incoming->size - head->size >= head->content_length &&
        head->content_length <= server->options.body_memory_bytes) {
        incoming->body_size = (size_t)head->content_length;
        return whole_request(conn, incoming);
    }
    if (!leave_scratch(conn, incoming) || nb_body_start(conn, &conn->partial->head) < 0)
        return refuse(conn, incoming, 503, "no memory for the request body");
    int error = feed_rest(conn, conn->partial->head.size);
    if (error)
        return refuse(conn, incoming, -error, nb_body_text(-error));
    lies_in_connection(conn, incoming);
    if (conn->body->complete || begins_early(conn))
        return whole_request(conn, incoming);
    conn->body->kept = true;
    if (conn->body->held && nb_reader_ask(conn, 0) < 0)
        return NB_ADVANCE_GONE;
    conn->state = NB_CONN_BODY;
    return conn->readable ? advance_body(conn, incoming) : wait_for_body(conn);
}

/* Some clients send an empty line behind a body (RFC 9112 2.2). It begins no request: such a
 * connection is idle, and does not get a 408 that its client would take for the next response. */
static bool has_begun(const nb_conn_t *conn)
{
    const nb_head_t *head = &conn->partial->head;
    return head->method.size || head->line < conn->in.size;
}

/* The head is incomplete: it waits in conn->in. */
static nb_advance_t wait_for_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    if (!leave_scratch(conn, incoming))
        return NB_ADVANCE_GONE;
    if (conn->state == NB_CONN_IDLE && has_begun(conn)) {
        conn->state = NB_CONN_HEAD;
        nb_conn_deadline(conn, NB_DUE_HEAD, conn->server->options.header_timeout_ns);
    }
    return NB_ADVANCE_WAIT;
}

/* Reads once more, behind the incomplete head. */
static nb_advance_t receive_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    char *scratch = conn->server->scratch;
    ssize_t received = nb_reader_receive(conn);
    if (received <= 0)
        return received ? NB_ADVANCE_GONE : NB_ADVANCE_WAIT;
    if (conn->in.size) {
        if (nb_buffer_append(&conn->in, scratch, (size_t)received) < 0)
            return NB_ADVANCE_GONE;
        lies_in_connection(conn, incoming);
    } else {
        incoming->bytes = scratch;
        incoming->size = (size_t)received;
        incoming->in_scratch = true;
    }
    return NB_ADVANCE_REQUEST;
}

/* Part of what the proxy says of its client has arrived. */
static nb_advance_t wait_for_proxied(nb_conn_t *conn, const nb_incoming_t *incoming)
{
    if (incoming->in_scratch && nb_buffer_append(&conn->in, incoming->bytes, incoming->size) < 0)
        return NB_ADVANCE_GONE;
    return NB_ADVANCE_WAIT;
}

/* The first bytes of a proxy's connection name the client, whose own bytes come after them. */
static nb_advance_t read_proxied(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_proxied_t proxied;
    int result = nb_proxied_read(&proxied, incoming->bytes, incoming->size);
    if (result == NB_PROXIED_MORE)
        return wait_for_proxied(conn, incoming);
    if (result == NB_PROXIED_BAD) {
        nb_head_start(&conn->server->head); /* none was read */
        return refuse(conn, incoming, 400, "the PROXY protocol is missing or malformed");
    }
    conn->proxied = false;
    if (proxied.family) {
        conn->family = (uint8_t)proxied.family;
        memcpy(conn->peer, proxied.address, sizeof(conn->peer));
    }
    incoming->size -= proxied.size;
    if (incoming->in_scratch) {
        incoming->bytes += proxied.size;
    } else {
        conn->in.size = incoming->size;
        memmove(conn->in.bytes, conn->in.bytes + proxied.size, incoming->size);
    }
    return incoming->size ? NB_ADVANCE_REQUEST : NB_ADVANCE_WAIT;
}

static nb_advance_t advance_head(nb_conn_t *conn, nb_incoming_t *incoming)
{
    /* left over from the request before */
    bool fresh = conn->in.size > 0 && !conn->partial && !conn->proxied;
    if (fresh)
        lies_in_connection(conn, incoming);
    for (;;) {
        nb_advance_t advance = fresh ? NB_ADVANCE_REQUEST : receive_head(conn, incoming);
        if (advance != NB_ADVANCE_REQUEST)
            return advance;
        fresh = false;
        if (conn->proxied && (advance = read_proxied(conn, incoming)) != NB_ADVANCE_REQUEST) {
            if (advance != NB_ADVANCE_WAIT || !conn->readable)
                return advance;
            continue;
        }
        int result = read_head(conn, incoming->bytes, incoming->size);
        if (result == NB_HEAD_DONE)
            return after_head(conn, incoming);
        if (result < 0)
            return refuse(conn, incoming, nb_head_status(result), nb_head_text(result));
        advance = wait_for_head(conn, incoming);
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

void nb_reader_free_partial(nb_conn_t *conn)
{
    if (!conn->partial)
        return;
    free(conn->partial->fields);
    free(conn->partial);
    conn->partial = NULL;
}

void nb_reader_consume(nb_conn_t *conn, const nb_incoming_t *incoming)
{
    size_t used = incoming->head->size + incoming->body_size, rest = incoming->size - used;
    if (incoming->in_scratch) {
        if (rest && nb_buffer_append(&conn->in, incoming->bytes + used, rest) < 0)
            conn->keep = false;
    } else {
        if (rest)
            memmove(conn->in.bytes, conn->in.bytes + used, rest);
        conn->in.size = rest;
        if (!rest)
            nb_buffer_free(&conn->in);
    }
    nb_reader_free_partial(conn);
}
