/* connection.c - what a connection sends, how it continues and how it ends. Uses ruby.h.
 *
 * Read after: connection.h, which says why it ends.
 */
#include "server/connection.h"
#include "loop/wait.h"
#include "server/body.h"
#include "server/transport.h"
#include "server/deadline.h"
#include "server/output.h"
#include "server/queue.h"
#include "server/reader.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* While draining. A client that was promised its connection may be sending its next request just
 * now: it is answered, and told that the connection ends. Browsers open connections that they may
 * never use; those have been promised nothing, but their first request may be under way. */
#define KEPT_NS UINT64_C(1000000000)
#define FIRST_REQUEST_NS (2 * UINT64_C(1000000000))

/* How long a connection lingers without a byte from its client, at most, and for how many bytes. */
#define LINGER_NS (2 * UINT64_C(1000000000))
#define LINGER_MOST_NS (30 * UINT64_C(1000000000))
#define LINGER_BYTES (UINT64_C(64) << 20)
#define LINGER_READS 16 /* 1 MB at a time; then the other connections have their turn */

/* --- the end ---------------------------------------------------------------------------------- */

/* Removes it from the lists and the loop; the fd stays open. */
static void unlink_all(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_list_empty(&conn->queue))
        nb_queue_remove(conn);
    nb_list_remove(&conn->dirty);
    nb_list_remove(&conn->link);
    nb_timers_remove(&server->loop->timers, &conn->timer);
    nb_fdtable_remove(&server->loop->fds, &conn->watch);
    nb_fdtable_closing(&server->loop->fds, conn->watch.fd);
    server->connection_count--;
    nb_transport_leave(conn);
    conn->state = NB_CONN_CLOSED;
}

static void drop_memory(nb_conn_t *conn)
{
    nb_reader_free_partial(conn);
    nb_body_free(conn);
    nb_output_free(conn);
    nb_buffer_free(&conn->in);
}

void nb_conn_until_close(nb_conn_t *conn, bool until_close)
{
    struct linger at_once = {.l_onoff = until_close};
    if (conn->until_close != until_close && conn->state != NB_CONN_CLOSED)
        setsockopt(conn->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    conn->until_close = until_close;
}

void nb_conn_free(nb_conn_t *conn)
{
    free(conn);
}

void nb_conn_close(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (conn->state == NB_CONN_CLOSED)
        return;
    if (conn->transport)
        conn->transport->cut = conn->until_close;
    if (!conn->until_close)
        nb_reader_take_last(conn);
    unlink_all(conn);
    close(conn->watch.fd);
    drop_memory(conn);
    nb_conn_wake_waiters(conn, NB_READABLE | NB_WRITABLE);
    if (!conn->request)
        nb_conn_free(conn);
    server->tells->room(server);
    server->tells->drained(server);
}

int nb_conn_detach(nb_conn_t *conn)
{
    int fd = conn->watch.fd;
    if (conn->transport)
        conn->transport->detached = true;
    nb_conn_until_close(conn, false);
    nb_reader_take_last(conn);
    unlink_all(conn);
    drop_memory(conn);
    nb_conn_wake_waiters(conn, NB_READABLE | NB_WRITABLE);
    conn->server->tells->room(conn->server);
    conn->server->tells->drained(conn->server);
    return fd;
}

/* A stopping server does not wait for a client that goes on sending. */
static void linger_on(nb_conn_t *conn)
{
    const nb_server_t *server = conn->server;
    uint64_t now = nb_loop_clock(server->loop), last = conn->since_ns + LINGER_MOST_NS;
    if (!server->draining && now < last)
        nb_conn_deadline(conn, NB_DUE_END, last - now < LINGER_NS ? last - now : LINGER_NS);
}

void nb_conn_throw_away(nb_conn_t *conn)
{
    ssize_t size = 0;
    uint64_t before = conn->thrown_away;
    for (int i = 0; i < LINGER_READS && (size = nb_reader_receive(conn)) > 0; i++)
        conn->thrown_away += (uint64_t)size;
    if (conn->hung_up || conn->thrown_away > LINGER_BYTES) {
        nb_conn_close(conn);
        return;
    }
    if (conn->thrown_away > before)
        linger_on(conn);
    if (size > 0)
        nb_output_later(conn);
}

void nb_conn_linger(nb_conn_t *conn)
{
    shutdown(conn->watch.fd, SHUT_WR);
    conn->state = NB_CONN_LINGER;
    drop_memory(conn);
    conn->since_ns = nb_loop_clock(conn->server->loop);
    nb_conn_deadline(conn, NB_DUE_END, LINGER_NS);
    nb_conn_throw_away(conn);
}

/* --- sending ---------------------------------------------------------------------------------- */

static int close_if_gone(nb_conn_t *conn, int result)
{
    if (result < 0)
        nb_conn_close(conn);
    return result;
}

int nb_conn_write(nb_conn_t *conn, struct iovec *iov, const VALUE *owners, int count)
{
    return close_if_gone(conn, nb_output_write(conn, iov, owners, count));
}

int nb_conn_write_file(nb_conn_t *conn, int file, off_t at, uint64_t size)
{
    return close_if_gone(conn, nb_output_file(conn, file, at, size));
}

int nb_conn_collect(nb_conn_t *conn, const char *bytes, size_t size)
{
    return close_if_gone(conn, nb_output_collect(conn, bytes, size));
}

int nb_conn_flush(nb_conn_t *conn)
{
    return close_if_gone(conn, nb_output_flush(conn));
}

void nb_conn_drain(nb_conn_t *conn)
{
    bool gone = nb_conn_flush(conn) < 0;
    while (!gone && !nb_output_empty(conn)) {
        nb_conn_note_taken(conn);
        gone =
            nb_conn_wait(conn, NB_DUE_WRITE, conn->server->options.write_timeout_ns) != NB_WAITED ||
            (conn->writable && nb_conn_flush(conn) < 0);
    }
    if (gone)
        rb_syserr_fail(EPIPE, "the client is gone");
}

/* --- after the answer ------------------------------------------------------------------------- */

void nb_conn_idle(nb_conn_t *conn)
{
    const nb_server_t *server = conn->server;
    uint64_t limit_ns = conn->requests ? KEPT_NS : FIRST_REQUEST_NS;
    if (!server->draining || server->options.idle_timeout_ns < limit_ns)
        limit_ns = server->options.idle_timeout_ns;
    nb_conn_deadline(conn, NB_DUE_FIRST_BYTE, limit_ns);
}

/* Unread bytes may have come while the application computed: then no event has told of them yet. */
static bool still_sends(const nb_conn_t *conn)
{
    char byte;
    if (conn->in.size || nb_body_missing(conn))
        return true;
    if (conn->hung_up)
        return false;
    return (conn->more && !conn->ended) ||
           recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void nb_conn_finish(nb_conn_t *conn)
{
    if (!nb_output_empty(conn)) {
        conn->state = NB_CONN_WRITE;
        nb_conn_note_taken(conn);
        nb_conn_deadline(conn, NB_DUE_WRITE, conn->server->options.write_timeout_ns);
        return;
    }
    nb_conn_until_close(conn, false);
    nb_reader_take_last(conn);
    nb_output_free(conn);
    if (!nb_body_missing(conn))
        nb_body_free(conn); /* arrived, but not read to its end */
    if (!conn->keep) {
        if (still_sends(conn))
            nb_conn_linger(conn);
        else
            nb_conn_close(conn);
        return;
    }
    conn->state = NB_CONN_IDLE;
    nb_conn_idle(conn);
    if (conn->in.size || conn->readable)
        conn->server->tells->runnable(conn);
}
