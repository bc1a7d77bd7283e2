/* output.c - writing: as much as the socket takes now, the rest later. Uses ruby.h.
 *
 * Strings that must wait are kept, not copied (as frozen views); only heads and chunk frames are
 * copied. The order of waiting output: bytes, strings, file.
 *
 * Read after: output.h.
 */
#include "server/output.h"
#include "base/portable.h"
#include "server/deadline.h"
#include "server/request.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define COLLECT_BYTES 65536
#define IOV_AT_ONCE 64
#define BYTES_A_TURN (1u << 20) /* then it is the other connections' turn */

static nb_output_t *output_of(nb_conn_t *conn)
{
    if (!conn->output) {
        conn->output = xcalloc(1, sizeof(nb_output_t));
        conn->output->file = -1;
        nb_list_append(&conn->server->outputs, &conn->output->link);
    }
    return conn->output;
}

void nb_output_free(nb_conn_t *conn)
{
    nb_output_t *output = conn->output;
    if (!output)
        return;
    nb_list_remove(&conn->dirty);
    nb_list_remove(&output->link);
    if (output->file >= 0)
        close(output->file);
    free(output->bytes.bytes);
    xfree(output);
    conn->output = NULL;
}

bool nb_output_empty(const nb_conn_t *conn)
{
    const nb_output_t *output = conn->output;
    return !output ||
           (output->bytes_at == output->bytes.size && !output->strings && output->file < 0);
}

/* While a string waits, which is large, everything behind it is kept as strings, however much. */
bool nb_output_full(const nb_conn_t *conn)
{
    const nb_output_t *output = conn->output;
    return output && (output->strings || output->bytes.size - output->bytes_at >= NB_SCRATCH_BYTES);
}

void nb_output_later(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (nb_list_empty(&conn->dirty))
        nb_list_append(&server->later, &conn->dirty);
    if (server->later_timer.index == NB_TIMER_IDLE)
        nb_loop_add_timer(server->loop, &server->later_timer, server->loop->now_ns + 1);
}

/* It has had its turn: continues with the next one, although the socket would take more. */
static int give_way(nb_conn_t *conn)
{
    nb_output_later(conn);
    return 0;
}

/* Sends once. Returns bytes, 0 if the socket is full, -1 if the client is gone. */
static ssize_t send_once(nb_conn_t *conn, struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    for (;;) {
        ssize_t sent = sendmsg(conn->watch.fd, &message, MSG_NOSIGNAL);
        if (sent >= 0) {
            conn->server->counters.response_bytes += (uint64_t)sent;
            if (conn->request)
                conn->request->sent_bytes += (uint64_t)sent;
            return sent;
        }
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN) {
            nb_conn_dry(conn, NB_WRITABLE);
            return 0;
        }
        nb_conn_broke(conn);
        return -1;
    }
}

/* The same as send_once, for at most BYTES_A_TURN: a client that reads as fast as the kernel copies
 * would otherwise keep it here. */
static ssize_t send_some(nb_conn_t *conn, struct iovec *iov, int count)
{
    int parts = 0;
    size_t size = 0;
    while (parts < count && size < BYTES_A_TURN)
        size += iov[parts++].iov_len;
    if (size <= BYTES_A_TURN)
        return send_once(conn, iov, parts);
    iov[parts - 1].iov_len -= size - BYTES_A_TURN;
    ssize_t sent = send_once(conn, iov, parts);
    iov[parts - 1].iov_len += size - BYTES_A_TURN;
    return sent;
}

/* --- keeping what has to wait ----------------------------------------------------------------- */

static void keep_string(nb_output_t *output, VALUE string)
{
    if (!output->strings)
        output->strings = rb_ary_new();
    rb_ary_push(output->strings, rb_str_new_frozen(string));
}

static void keep(nb_conn_t *conn, const struct iovec *iov, VALUE owner, size_t skip)
{
    nb_output_t *output = output_of(conn);
    if (iov->iov_len == skip)
        return;
    const char *bytes = (const char *)iov->iov_base + skip;
    if (!owner && !output->strings) {
        if (nb_buffer_append(&output->bytes, bytes, iov->iov_len - skip) < 0)
            rb_memerror();
    } else if (!owner) {
        keep_string(output, rb_str_new(bytes, (long)(iov->iov_len - skip)));
    } else {
        /* Only the first kept string can have begun. */
        if (skip && !output->strings)
            output->offset = skip;
        keep_string(output, owner);
    }
}

int nb_output_write(nb_conn_t *conn, struct iovec *iov, const VALUE *owners, int count)
{
    int at = 0;
    size_t turn = 0;
    if (conn->state == NB_CONN_CLOSED || (!nb_output_empty(conn) && nb_output_flush(conn) < 0))
        return -1;
    while (at < count && turn < BYTES_A_TURN && nb_output_empty(conn)) {
        int batch = count - at < IOV_AT_ONCE ? count - at : IOV_AT_ONCE;
        ssize_t sent = send_some(conn, iov + at, batch);
        if (sent < 0)
            return -1;
        turn += (size_t)sent;
        while (at < count && (size_t)sent >= iov[at].iov_len)
            sent -= (ssize_t)iov[at++].iov_len;
        if (at < count && (sent || !conn->writable)) {
            keep(conn, &iov[at], owners[at], (size_t)sent);
            at++;
        }
    }
    for (; at < count; at++)
        keep(conn, &iov[at], owners[at], 0);
    return !nb_output_empty(conn) && conn->writable ? give_way(conn) : 0;
}

int nb_output_file(nb_conn_t *conn, int file, off_t at, uint64_t size)
{
    if (conn->state == NB_CONN_CLOSED) {
        close(file);
        return -1;
    }
    nb_output_t *output = output_of(conn);
    output->file = file;
    output->file_at = at;
    output->file_left = size;
    return nb_output_flush(conn);
}

int nb_output_collect(nb_conn_t *conn, const char *bytes, size_t size)
{
    if (conn->state == NB_CONN_CLOSED)
        return -1;
    nb_output_t *output = output_of(conn);
    output->held = false;
    if (output->strings) {
        keep_string(output, rb_str_new(bytes, (long)size));
    } else if (nb_buffer_append(&output->bytes, bytes, size) < 0) {
        rb_memerror();
    }
    if (nb_list_empty(&conn->dirty)) {
        nb_list_append(&conn->server->dirty, &conn->dirty);
        nb_loop_before_poll(conn->server->loop, &conn->server->flush_hook);
    }
    return output->bytes.size - output->bytes_at < COLLECT_BYTES ? 0 : nb_output_flush(conn);
}

void nb_output_hold(nb_conn_t *conn)
{
    if (nb_list_empty(&conn->dirty)) /* it has been written */
        return;
    nb_list_remove(&conn->dirty);
    conn->output->held = true;
}

int nb_output_insert(nb_conn_t *conn, const char *bytes, size_t size, size_t behind)
{
    nb_output_t *output = conn->output;
    if (conn->state == NB_CONN_CLOSED)
        return -1;
    if (nb_buffer_append(&output->bytes, bytes, size) < 0)
        rb_memerror();
    char *at = output->bytes.bytes + output->bytes.size - size - behind;
    memmove(at + size, at, behind);
    memcpy(at, bytes, size);
    return 0;
}

bool nb_output_drop(nb_conn_t *conn, size_t size)
{
    nb_output_t *output = conn->output;
    if (!output || output->strings || output->bytes.size - output->bytes_at < size)
        return false;
    output->bytes.size -= size;
    return true;
}

/* --- flushing --------------------------------------------------------------------------------- */

/* All three return 1 if their part is sent, 0 if the socket is full, -1 if the client is gone. */
static int flush_bytes(nb_conn_t *conn, nb_output_t *output)
{
    while (output->bytes_at < output->bytes.size) {
        struct iovec iov = {.iov_base = output->bytes.bytes + output->bytes_at,
                            .iov_len = output->bytes.size - output->bytes_at};
        ssize_t sent = send_some(conn, &iov, 1);
        if (sent <= 0)
            return (int)sent;
        output->bytes_at += (size_t)sent;
    }
    output->bytes.size = output->bytes_at = 0;
    return 1;
}

static int flush_strings(nb_conn_t *conn, nb_output_t *output)
{
    for (size_t turn = 0; output->strings;) {
        if (turn >= BYTES_A_TURN)
            return give_way(conn);
        struct iovec iov[IOV_AT_ONCE];
        int count = 0;
        long size = RARRAY_LEN(output->strings);
        for (long i = output->index; i < size && count < IOV_AT_ONCE; i++, count++) {
            VALUE string = RARRAY_AREF(output->strings, i);
            size_t skip = count ? 0 : output->offset;
            iov[count] = (struct iovec){.iov_base = RSTRING_PTR(string) + skip,
                                        .iov_len = (size_t)RSTRING_LEN(string) - skip};
        }
        ssize_t sent = send_some(conn, iov, count);
        if (sent <= 0)
            return (int)sent;
        turn += (size_t)sent;
        for (int i = 0; i < count && (size_t)sent >= iov[i].iov_len; i++) {
            sent -= (ssize_t)iov[i].iov_len;
            output->index++;
            output->offset = 0;
        }
        output->offset += (size_t)sent;
        if (output->index == size) {
            output->strings = 0;
            output->index = 0;
            output->offset = 0;
        }
    }
    return 1;
}

static int flush_file(nb_conn_t *conn, nb_output_t *output)
{
    for (size_t turn = 0; output->file >= 0 && output->file_left;) {
        if (turn >= BYTES_A_TURN)
            return give_way(conn);
        size_t size = output->file_left < BYTES_A_TURN ? output->file_left : BYTES_A_TURN;
        ssize_t sent = nb_send_file(conn->watch.fd, output->file, &output->file_at, size);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            nb_conn_dry(conn, NB_WRITABLE);
            return 0;
        }
        if (sent < 0) /* the client has gone */
            nb_conn_broke(conn);
        if (sent <= 0) /* or the file was truncated */
            return -1;
        turn += (size_t)sent;
        output->file_left -= (uint64_t)sent;
        conn->server->counters.response_bytes += (uint64_t)sent;
        if (conn->request)
            conn->request->sent_bytes += (uint64_t)sent;
    }
    if (output->file >= 0)
        close(output->file);
    output->file = -1;
    return 1;
}

int nb_output_flush(nb_conn_t *conn)
{
    nb_output_t *output = conn->output;
    int result;
    if (conn->state == NB_CONN_CLOSED)
        return -1;
    if (!output)
        return 0;
    nb_list_remove(&conn->dirty);
    output->held = false;
    (void)((result = flush_bytes(conn, output)) > 0 && (result = flush_strings(conn, output)) > 0 &&
           (result = flush_file(conn, output)));
    if (result > 0) /* a fiber may wait for room, and no event may follow */
        nb_conn_wake_waiters(conn, NB_WRITABLE);
    return result < 0 ? -1 : 0;
}
