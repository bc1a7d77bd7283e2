/* connection.c - the life of a connection: reading, waiting, closing. Ruby.
 *
 * Suggested order: on_ready (what the kernel says), nb_conn_advance (what a worker does with it),
 * nb_conn_finish (what comes after an answer).
 *
 * Read after: server.h. Used by: worker.c, response.c, listener.c.
 */
#include "server/server.h"
#include "base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_NS (2 * UINT64_C(1000000000))

/* --- buffers --------------------------------------------------------------------------------- */

int nb_buffer_append(nb_buffer_t *buffer, const char *bytes, size_t size)
{
    if (buffer->size + size > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : 256;
        while (capacity < buffer->size + size)
            capacity *= 2;
        char *grown = realloc(buffer->bytes, capacity);
        if (!grown)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}

void nb_buffer_free(nb_buffer_t *buffer)
{
    free(buffer->bytes);
    *buffer = (nb_buffer_t){0};
}

/* --- timers ---------------------------------------------------------------------------------- */

/* Moving a deadline later costs nothing: the timer fires early once and is set again. */
void nb_conn_deadline(nb_conn_t *conn, uint64_t after_ns)
{
    nb_loop_t *loop = conn->server->loop;
    conn->deadline_ns = after_ns == NB_NEVER ? NB_NEVER : loop->now_ns + after_ns;
    if (conn->deadline_ns == NB_NEVER)
        return;
    if (conn->timer.index == NB_TIMER_IDLE || conn->timer.when_ns > conn->deadline_ns)
        nb_loop_set_timer(loop, &conn->timer, conn->deadline_ns);
}

static VALUE new_error(VALUE arguments)
{
    VALUE *names = (VALUE *)arguments;
    return rb_exc_new_str(rb_const_get(rb_mNBServer, (ID)names[0]), names[1]);
}

/* Raises an error of NB::Server in the fiber that runs the request, at its wait. */
static void cancel_request(nb_request_t *request, const char *name, const char *text)
{
    int failed;
    VALUE arguments[] = {(VALUE)rb_intern(name), rb_str_new_cstr(text)};
    VALUE error = rb_protect(new_error, (VALUE)arguments, &failed);
    if (failed)
        rb_set_errinfo(Qnil);
    else
        nb_interrupt(request->conn->server->loop, request->fiber, error);
}

static void run_out_of_time(nb_conn_t *conn)
{
    nb_request_t *request = conn->request;
    conn->server->counters.timeouts++;
    if (conn->parked) { /* the client neither reads nor writes what the worker waits for */
        nb_conn_close(conn);
    } else if (!request->timed_out && !request->head_sent) {
        request->timed_out = true;
        cancel_request(
            request, "RequestTimeoutError",
            "the request took longer than request_timeout: raise it, or shorten the work");
    }
}

static void on_due(nb_timer_t *timer)
{
    nb_conn_t *conn = nb_container_of(timer, nb_conn_t, timer);
    nb_server_t *server = conn->server;
    if (conn->deadline_ns == NB_NEVER)
        return;
    if (conn->deadline_ns > server->loop->now_ns) {
        nb_loop_add_timer(server->loop, timer, conn->deadline_ns);
        return;
    }
    switch (conn->state) {
    case NB_CONN_HEAD:
    case NB_CONN_BODY:
        /* In the queue it waits for us, not we for it: the queue has its own limit. */
        if (!nb_list_empty(&conn->queue)) {
            nb_conn_deadline(conn, server->options.header_timeout_ns);
            return;
        }
        server->counters.timeouts++;
        nb_conn_refuse(conn, 408, "the request did not arrive in time");
        break;
    case NB_CONN_IDLE:
        if (nb_list_empty(&conn->queue))
            nb_conn_close(conn);
        break;
    case NB_CONN_RUN:
        run_out_of_time(conn);
        break;
    default:
        server->counters.timeouts += conn->state == NB_CONN_WRITE;
        nb_conn_close(conn);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void on_ready(nb_watch_t *watch, int mask);

static void remember_peer(nb_conn_t *conn, const struct sockaddr *peer)
{
    if (peer && peer->sa_family == AF_INET) {
        memcpy(conn->peer, &((const struct sockaddr_in *)peer)->sin_addr, 4);
        conn->family = AF_INET;
    } else if (peer && peer->sa_family == AF_INET6) {
        memcpy(conn->peer, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
        conn->family = AF_INET6;
    }
}

nb_conn_t *nb_conn_open(nb_server_t *server, int fd, const nb_listener_t *listener,
                        const struct sockaddr *peer)
{
    nb_conn_t *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->server = server;
    conn->local = listener->local;
    conn->https = listener->https;
    conn->port = listener->port;
    conn->writable = true; /* readable is told by the first event */
    conn->timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = on_due};
    conn->watch =
        (nb_watch_t){.fd = fd, .mask = NB_READABLE | NB_WRITABLE | NB_HANGUP, .on_ready = on_ready};
    nb_list_init(&conn->queue);
    nb_list_init(&conn->dirty);
    remember_peer(conn, peer);
    if (nb_fdtable_add(&server->loop->fds, &conn->watch) != 0) {
        close(fd);
        free(conn);
        return NULL;
    }
    nb_list_append(&server->connections, &conn->link);
    server->connection_count++;
    nb_conn_deadline(conn, server->options.header_timeout_ns);
    return conn;
}

void nb_conn_free(nb_conn_t *conn)
{
    free(conn);
}

/* Leaves the lists and the loop; the fd stays open. */
static void unlink_all(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_list_empty(&conn->queue)) {
        nb_list_remove(&conn->queue);
        server->runnable_count--;
    }
    nb_list_remove(&conn->dirty);
    nb_list_remove(&conn->link);
    nb_timers_remove(&server->loop->timers, &conn->timer);
    nb_fdtable_remove(&server->loop->fds, &conn->watch);
    nb_fdtable_closing(&server->loop->fds, conn->watch.fd);
    server->connection_count--;
    conn->state = NB_CONN_CLOSED;
}

static void drop_memory(nb_conn_t *conn)
{
    if (conn->partial) {
        free(conn->partial->fields);
        free(conn->partial);
        conn->partial = NULL;
    }
    nb_body_free(conn);
    nb_output_free(conn);
    nb_buffer_free(&conn->in);
}

void nb_conn_close(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (conn->state == NB_CONN_CLOSED)
        return;
    unlink_all(conn);
    close(conn->watch.fd);
    drop_memory(conn);
    if (conn->parked)
        nb_wake(conn->parked, NB_WOKEN);
    if (!conn->request)
        nb_conn_free(conn);
    if (server->accepting)
        nb_listener_resume(server);
    nb_server_check_drained(server);
}

int nb_conn_detach(nb_conn_t *conn)
{
    int fd = conn->watch.fd;
    unlink_all(conn);
    drop_memory(conn);
    nb_server_check_drained(conn->server);
    return fd;
}

bool nb_conn_wait(nb_conn_t *conn)
{
    nb_park_t park;
    if (conn->state == NB_CONN_CLOSED)
        return false;
    nb_park_init(conn->server->loop, &park, NB_PARK_IO);
    conn->parked = &park;
    int state = 0;
    rb_protect(nb_park_value, (VALUE)&park, &state);
    conn->parked = NULL;
    if (state)
        rb_jump_tag(state);
    return conn->state != NB_CONN_CLOSED;
}

/* --- refusing --------------------------------------------------------------------------------- */

#define THROWN_AWAY_READS 16 /* a client that sends more than that at a time is cut off */

static void throw_away(nb_conn_t *conn)
{
    for (int i = 0; i < THROWN_AWAY_READS; i++)
        if (nb_conn_receive(conn) <= 0)
            break;
    if (conn->hung_up)
        nb_conn_close(conn);
}

/* Closing a socket with unread bytes resets it, and the client may never see the answer: so the
 * sending side is shut and what still comes is read away for a while (RFC 9112 9.6). */
static void linger(nb_conn_t *conn)
{
    shutdown(conn->watch.fd, SHUT_WR);
    conn->state = NB_CONN_LINGER;
    nb_buffer_free(&conn->in);
    nb_conn_deadline(conn, LINGER_NS);
    throw_away(conn);
}

void nb_conn_refuse(nb_conn_t *conn, int status, const char *text)
{
    char answer[512];
    nb_server_t *server = conn->server;
    server->counters.refused++;
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: text/plain\r\n"
                        "Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s\n",
                        status, nb_status_text(status), nb_server_date(server), strlen(text) + 1,
                        status == 503 ? "Retry-After: 1\r\n" : "", text);
    /* A client that does not take 512 bytes does not get them. */
    ssize_t sent = send(conn->watch.fd, answer, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 || conn->hung_up)
        nb_conn_close(conn);
    else
        linger(conn);
}

/* --- events ----------------------------------------------------------------------------------- */

void nb_conn_enqueue(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_list_empty(&conn->queue))
        return;
    if (server->runnable_count >= server->options.queue &&
        server->running_count >= server->options.fibers) {
        server->counters.rejected_503++;
        nb_conn_refuse(conn, 503, "too many requests wait already");
        return;
    }
    conn->since_ns = server->loop->now_ns;
    nb_list_append(&server->runnable, &conn->queue);
    server->runnable_count++;
    nb_worker_kick(server);
}

static void while_running(nb_conn_t *conn, int mask)
{
    nb_request_t *request = conn->request;
    if (conn->parked)
        nb_wake(conn->parked, NB_WOKEN);
    if (mask & NB_HANGUP && request && !request->gone) {
        request->gone = true;
        if (conn->server->options.cancel_when_gone && !conn->parked)
            cancel_request(request, "ClientGoneError", "the client closed the connection");
    }
}

static void on_ready(nb_watch_t *watch, int mask)
{
    nb_conn_t *conn = nb_container_of(watch, nb_conn_t, watch);
    if (mask & NB_READABLE)
        conn->readable = true;
    if (mask & NB_WRITABLE)
        conn->writable = true;
    if (mask & NB_HANGUP)
        conn->ended = true;
    switch (conn->state) {
    case NB_CONN_RUN:
        while_running(conn, mask);
        break;
    case NB_CONN_WRITE:
        if (conn->writable && nb_output_flush(conn) == 0 && nb_output_empty(conn))
            nb_conn_finish(conn);
        break;
    case NB_CONN_LINGER:
        throw_away(conn);
        break;
    default:
        if (conn->readable)
            nb_conn_enqueue(conn);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

ssize_t nb_conn_receive(nb_conn_t *conn)
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

/* Reads body bytes until it is complete or the socket is empty. */
static nb_advance_t advance_body(nb_conn_t *conn, nb_incoming_t *incoming)
{
    nb_server_t *server = conn->server;
    for (;;) {
        ssize_t size = nb_conn_receive(conn);
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
    if (conn->body->complete || conn->partial->head.flags & NB_HEAD_EXPECT_CONTINUE)
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
            ssize_t received = nb_conn_receive(conn);
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

nb_advance_t nb_conn_advance(nb_conn_t *conn, nb_incoming_t *incoming)
{
    *incoming = (nb_incoming_t){0};
    return conn->state == NB_CONN_BODY ? advance_body(conn, incoming)
                                       : advance_head(conn, incoming);
}

void nb_conn_consume(nb_conn_t *conn, const nb_incoming_t *incoming)
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

/* --- after the answer ---------------------------------------------------------------------------
 */

void nb_conn_finish(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_output_empty(conn)) {
        conn->state = NB_CONN_WRITE;
        nb_conn_deadline(conn, server->options.write_timeout_ns);
        return;
    }
    nb_output_free(conn);
    if (!conn->keep || (server->draining && !conn->in.size)) {
        /* Bytes we have not read would turn the close into a reset. */
        if (conn->in.size || conn->body || (conn->readable && !conn->hung_up))
            linger(conn);
        else
            nb_conn_close(conn);
        return;
    }
    conn->state = NB_CONN_IDLE;
    nb_conn_deadline(conn, server->options.idle_timeout_ns);
    if (conn->in.size || conn->readable)
        nb_conn_enqueue(conn);
}
