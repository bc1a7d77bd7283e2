/* connection.c - the life of a connection: opening, waiting, refusing, closing. Ruby.
 *
 * Suggested order: on_ready (what the kernel says), nb_reader_advance in reader.c (what a worker
 * does with it), nb_conn_finish (what comes after an answer).
 *
 * Read after: server.h. Used by: worker.c, reader.c, response.c, listener.c.
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

/* --- timers ---------------------------------------------------------------------------------- */

/* Moving a deadline later costs nothing: the timer fires early once and is set again. */
void nb_conn_deadline(nb_conn_t *conn, uint64_t after_ns)
{
    nb_loop_t *loop = conn->server->loop;
    if (conn->state == NB_CONN_CLOSED) /* its worker still runs; the timer would outlive both */
        return;
    conn->deadline_ns = after_ns == NB_NEVER ? NB_NEVER : loop->now_ns + after_ns;
    if (conn->deadline_ns == NB_NEVER || conn->state == NB_CONN_CLOSED)
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
    bool waits = !nb_list_empty(&conn->waiters);
    if (waits && nb_output_moves(conn))
        return;
    conn->server->counters.timeouts++;
    if (waits) { /* the client neither reads nor writes */
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
        if (conn->state == NB_CONN_WRITE && nb_output_moves(conn))
            return;
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
    nb_list_init(&conn->waiters);
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

/* One fiber that waits for the socket, on its own stack. */
typedef struct {
    nb_list_t link; /* conn->waiters */
    nb_park_t *park;
    bool dismissed;
} waiter_t;

static void wake_waiters(nb_conn_t *conn)
{
    for (nb_list_t *item = conn->waiters.next; item != &conn->waiters; item = item->next)
        nb_wake(nb_container_of(item, waiter_t, link)->park, NB_WOKEN);
}

void nb_conn_close(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (conn->state == NB_CONN_CLOSED)
        return;
    unlink_all(conn);
    close(conn->watch.fd);
    drop_memory(conn);
    wake_waiters(conn);
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
    wake_waiters(conn);
    nb_server_check_drained(conn->server);
    return fd;
}

bool nb_conn_wait(nb_conn_t *conn, uint64_t timeout_ns)
{
    nb_park_t park;
    waiter_t waiter = {.park = &park};
    int state = 0;
    if (conn->state == NB_CONN_CLOSED)
        return false;
    nb_conn_deadline(conn, timeout_ns);
    nb_park_init(conn->server->loop, &park, NB_PARK_IO);
    nb_list_append(&conn->waiters, &waiter.link);
    rb_protect(nb_park_value, (VALUE)&park, &state);
    if (!waiter.dismissed) {
        nb_list_remove(&waiter.link);
        if (nb_list_empty(&conn->waiters))
            nb_conn_deadline(conn, conn->request && !conn->request->head_sent
                                       ? conn->server->options.request_timeout_ns
                                       : NB_NEVER);
    }
    if (state)
        rb_jump_tag(state);
    return !waiter.dismissed && conn->state != NB_CONN_CLOSED;
}

void nb_conn_dismiss(nb_conn_t *conn)
{
    while (!nb_list_empty(&conn->waiters)) {
        waiter_t *waiter = nb_container_of(conn->waiters.next, waiter_t, link);
        nb_list_remove(&waiter->link);
        waiter->dismissed = true;
        nb_wake(waiter->park, NB_WOKEN);
    }
}

/* --- refusing --------------------------------------------------------------------------------- */

#define THROWN_AWAY_READS 16 /* a client that sends more than that at a time is cut off */

static void throw_away(nb_conn_t *conn)
{
    for (int i = 0; i < THROWN_AWAY_READS; i++)
        if (nb_reader_receive(conn) <= 0)
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
    wake_waiters(conn);
    if (mask & NB_HANGUP && request && !request->gone) {
        request->gone = true;
        if (conn->server->options.cancel_when_gone && nb_list_empty(&conn->waiters))
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
        if (conn->writable && nb_output_flush(conn) == 0)
            nb_conn_finish(conn); /* or it waits for the client again */
        break;
    case NB_CONN_LINGER:
        throw_away(conn);
        break;
    default:
        if (conn->readable)
            nb_conn_enqueue(conn);
    }
}

/* --- after the answer ------------------------------------------------------------------------- */

void nb_conn_finish(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_output_empty(conn)) {
        conn->state = NB_CONN_WRITE;
        nb_output_expect(conn);
        return;
    }
    nb_output_free(conn);
    if (!nb_body_missing(conn))
        nb_body_free(conn); /* all here, and not read to its end */
    if (!conn->keep || (server->draining && !conn->in.size)) {
        /* Bytes we have not read would turn the close into a reset. */
        if (conn->in.size || nb_body_missing(conn) || (conn->readable && !conn->hung_up))
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
