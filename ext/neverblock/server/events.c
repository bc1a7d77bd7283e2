/* events.c - how a connection begins, and its events: bytes, room, hang-ups, timers. Uses ruby.h.
 *
 * Read after: events.h, deadline.h.
 */
#include "server/events.h"
#include "loop/wait.h"
#include "server/deadline.h"
#include "server/output.h"
#include "server/refusal.h"
#include "server/request.h"
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what happens to its request -------------------------------------------------------------- */

static VALUE new_error(VALUE arguments)
{
    VALUE *names = (VALUE *)arguments;
    return rb_exc_new_str(rb_const_get(rb_mNBServer, (ID)names[0]), names[1]);
}

/* Raises an error of NB::Server in the waiting fiber that runs the request. */
static void cancel(nb_request_t *request, const char *name, const char *text)
{
    int failed;
    if (request->over)
        return;
    VALUE arguments[] = {(VALUE)rb_intern(name), rb_str_new_cstr(text)};
    VALUE error = rb_protect(new_error, (VALUE)arguments, &failed);
    if (failed)
        rb_set_errinfo(Qnil);
    else
        nb_interrupt(request->conn->server->loop, request->fiber, error);
}

/* A fiber that waits for the socket learns it by itself, unless what it waited for came, too. */
void nb_conn_tell_gone(nb_conn_t *conn)
{
    nb_request_t *request = conn->request;
    if (!request || !conn->ended || request->told_gone)
        return;
    request->gone = true;
    if (!conn->server->options.cancel_when_gone || !nb_list_empty(&conn->waiters))
        return;
    request->told_gone = true;
    cancel(request, "ClientGoneError", "the client closed the connection");
}

/* --- events ----------------------------------------------------------------------------------- */

static void while_running(nb_conn_t *conn, int mask)
{
    nb_conn_wake_waiters(conn, mask);
    nb_conn_tell_gone(conn);
}

static void on_ready(nb_watch_t *watch, int mask)
{
    nb_conn_t *conn = nb_container_of(watch, nb_conn_t, watch);
    bool has_request = conn->request;
    if (mask & NB_READABLE)
        conn->readable = true;
    if (mask & NB_WRITABLE)
        conn->writable = true;
    if (mask & NB_HANGUP)
        conn->ended = true;
    /* In any state, because the kernel reports room only once. */
    bool waits = conn->output && !conn->output->held;
    bool gone = waits && conn->writable && nb_conn_flush(conn) < 0;
    if (gone && !has_request)
        return; /* freed */
    switch (gone ? NB_CONN_RUN : conn->state) {
    case NB_CONN_RUN:
        while_running(conn, mask);
        break;
    case NB_CONN_WRITE:
        if (conn->writable)
            nb_conn_finish(conn); /* or it waits for the client again */
        break;
    case NB_CONN_LINGER:
        nb_conn_throw_away(conn);
        break;
    default:
        if (conn->readable)
            conn->server->tells->runnable(conn);
    }
}

/* Its time is up. */
static void on_due(nb_timer_t *timer)
{
    nb_conn_t *conn = nb_container_of(timer, nb_conn_t, timer);
    switch (nb_conn_overdue(conn)) {
    case NB_OVERDUE_NOTHING:
        break;
    case NB_OVERDUE_READ:
        conn->server->tells->runnable(conn);
        break;
    case NB_OVERDUE_CANCEL:
        cancel(conn->request, "RequestTimeoutError",
               "the request took longer than request_timeout: raise it, or shorten the work");
        break;
    case NB_OVERDUE_REFUSE:
        nb_conn_refuse(conn, 408, "the request did not arrive in time", NULL);
        break;
    case NB_OVERDUE_CLOSE:
        nb_conn_close(conn);
    }
}

void nb_conns_flush(nb_hook_t *hook)
{
    nb_server_t *server = nb_container_of(hook, nb_server_t, flush_hook);
    while (!nb_list_empty(&server->dirty)) {
        nb_conn_t *conn = nb_container_of(server->dirty.next, nb_conn_t, dirty);
        nb_list_remove(&conn->dirty);
        nb_conn_flush(conn);
    }
}

void nb_conns_go_on(nb_timer_t *timer)
{
    nb_server_t *server = nb_container_of(timer, nb_server_t, later_timer);
    nb_list_t *last = server->later.prev; /* who gives way again is behind it */
    for (bool more = !nb_list_empty(&server->later); more;) {
        nb_conn_t *conn = nb_container_of(server->later.next, nb_conn_t, dirty);
        more = &conn->dirty != last;
        nb_list_remove(&conn->dirty);
        if (nb_conn_flush(conn) < 0)
            continue;
        if (conn->state == NB_CONN_WRITE)
            nb_conn_finish(conn);
        else if (conn->state == NB_CONN_LINGER)
            nb_conn_throw_away(conn);
    }
}

/* --- the beginning ---------------------------------------------------------------------------- */

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

nb_conn_t *nb_conn_open(nb_server_t *server, int fd, const nb_arrival_t *arrival)
{
    nb_conn_t *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->server = server;
    conn->local = conn->holds_last = arrival->local;
    conn->https = arrival->https;
    conn->proxied = server->options.proxy_protocol;
    conn->port = arrival->port;
    conn->writable = true; /* readable is told by the first event */
    conn->timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = on_due};
    conn->watch = (nb_watch_t){
        .fd = fd, .mask = NB_READABLE | NB_WRITABLE | NB_HANGUP | NB_ONCE, .on_ready = on_ready};
    nb_list_init(&conn->queue);
    nb_list_init(&conn->dirty);
    nb_list_init(&conn->waiters);
    remember_peer(conn, arrival->peer);
    if (nb_fdtable_add(&server->loop->fds, &conn->watch) != 0) {
        close(fd);
        free(conn);
        return NULL;
    }
    nb_list_append(&server->connections, &conn->link);
    server->connection_count++;
    if (server->draining) /* fds were short, or its TLS handshake ended only now */
        nb_conn_idle(conn);
    else
        nb_conn_deadline(conn, NB_DUE_FIRST_BYTE, server->options.header_timeout_ns);
    return conn;
}
