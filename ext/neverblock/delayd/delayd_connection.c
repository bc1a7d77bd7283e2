/* delayd_connection.c - from bytes to requests, and the turns of a connection. Pure C.
 * Read after: delayd_connection.h, delayd_answer.h.
 *
 * Input is read into the server's one shared buffer. Only what is left over at the end of a
 * connection's turn moves into memory of its own.
 */
#include "delayd/delayd_connection.h"

#ifdef NB_EPOLL
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "delayd/delayd_answer.h"

#define TURN_READS 3 /* 48 KB, then the other connections get their turns */
#define LINGER_NS NB_NS_PER_S

/* The request is complete: answers it, now or when it is due. */
static void begin(nb_delayd_connection_t *conn)
{
    if (conn->request.delay_ns == 0) {
        nb_delayd_answer_ok(conn);
        return;
    }
    /* The clock is read after the request, so that no answer is early by the time in between. */
    conn->timer.when_ns = nb_clock_now() + conn->request.delay_ns;
    conn->state = nb_timers_add(&conn->server->timers, &conn->timer) == 0 ? NB_DELAYD_DELAYED
                                                                          : NB_DELAYD_BROKEN;
}

/* Takes one request, or the body of one, from the front. Returns how many bytes it took. */
static size_t take(nb_delayd_connection_t *conn, const char *bytes, size_t count)
{
    const nb_delayd_options_t *options = &conn->server->options;
    nb_delayd_request_t request = {.delay_ns = options->delay_ns,
                                   .body_bytes = options->body_bytes};
    if (conn->drop_bytes > 0) {
        size_t dropped = conn->drop_bytes < count ? (size_t)conn->drop_bytes : count;
        conn->drop_bytes -= dropped;
        if (conn->drop_bytes == 0)
            begin(conn);
        return dropped;
    }
    ssize_t length = nb_delayd_request_parse(&request, bytes, count);
    if (length == 0 || !nb_delayd_answer_room(conn, &request))
        return 0;
    if (length < 0) {
        nb_delayd_answer_bad(conn, request.problem);
        return count;
    }
    conn->request = request;
    conn->drop_bytes = request.content_bytes;
    if (conn->drop_bytes == 0)
        begin(conn);
    return (size_t)length;
}

static size_t take_all(nb_delayd_connection_t *conn, const char *bytes, size_t count)
{
    size_t used = 0, taken = 1;
    while (taken > 0 && used < count && conn->state == NB_DELAYD_READING && !conn->closing) {
        taken = take(conn, bytes + used, count - used);
        used += taken;
    }
    return used;
}

/* Returns how many bytes have arrived; 0 if there are none now. */
static size_t receive(nb_delayd_connection_t *conn, char *bytes, size_t size)
{
    ssize_t got = recv(conn->fd, bytes, size, 0);
    if (got == 0)
        conn->ended = true;
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        conn->state = NB_DELAYD_BROKEN;
    /* A short read has emptied the socket, so a recv that would return EAGAIN can be saved. But
     * after a hang-up epoll reports nothing more, so then read to the very end. */
    if (got <= 0 || ((size_t)got < size && !conn->hung_up))
        conn->readable = false;
    return got > 0 ? (size_t)got : 0;
}

static size_t take_unread(nb_delayd_connection_t *conn)
{
    size_t count = conn->unread_bytes;
    if (count > 0)
        memcpy(conn->server->in, conn->unread, count);
    free(conn->unread);
    conn->unread = NULL;
    conn->unread_bytes = 0;
    return count;
}

static void keep_unread(nb_delayd_connection_t *conn, size_t count)
{
    if (count == 0)
        return;
    conn->unread = malloc(count);
    if (!conn->unread) {
        conn->state = NB_DELAYD_BROKEN;
        return;
    }
    memcpy(conn->unread, conn->server->in, count);
    conn->unread_bytes = (uint32_t)count;
}

/* Reads and drops input: a close with unread input would reset the connection before the client has
 * seen the answer. */
static void linger(nb_delayd_connection_t *conn)
{
    for (int reads = 0; conn->readable && conn->state == NB_DELAYD_LINGERING; reads++) {
        if (reads == TURN_READS) {
            nb_delayd_want_turn(conn);
            return;
        }
        receive(conn, conn->server->in, NB_DELAYD_IN_BYTES);
    }
    if (conn->ended || conn->state == NB_DELAYD_BROKEN)
        nb_delayd_connection_close(conn);
}

static void say_goodbye(nb_delayd_connection_t *conn, bool input_left)
{
    if (conn->ended || !(conn->refused || input_left || conn->readable)) {
        nb_delayd_connection_close(conn);
        return;
    }
    conn->timer.when_ns = nb_clock_now() + LINGER_NS;
    if (shutdown(conn->fd, SHUT_WR) < 0 || nb_timers_add(&conn->server->timers, &conn->timer) < 0) {
        nb_delayd_connection_close(conn);
        return;
    }
    conn->state = NB_DELAYD_LINGERING;
    linger(conn);
}

/* Ends a turn after which the connection stays, unless it is broken. */
static void settle(nb_delayd_connection_t *conn, size_t count)
{
    conn->server->out_bytes = 0;
    keep_unread(conn, count);
    if (conn->state == NB_DELAYD_BROKEN)
        nb_delayd_connection_close(conn);
}

/* One turn: reads and answers all that can be answered now. */
static void serve(nb_delayd_connection_t *conn)
{
    char *in = conn->server->in;
    size_t count = take_unread(conn);
    for (int reads = 0;; reads++) {
        size_t used = take_all(conn, in, count);
        count -= used;
        memmove(in, in + used, count);
        if (conn->state != NB_DELAYD_READING || conn->closing || !conn->readable)
            break;
        if (reads == TURN_READS) {
            nb_delayd_want_turn(conn);
            break;
        }
        count += receive(conn, in + count, NB_DELAYD_IN_BYTES - count);
        conn->closing = conn->closing || conn->ended;
    }
    if (conn->state == NB_DELAYD_READING)
        nb_delayd_answer_send(conn);
    if (conn->state == NB_DELAYD_READING && conn->closing)
        say_goodbye(conn, count > 0);
    else
        settle(conn, count);
}

static void on_due(nb_timer_t *timer)
{
    nb_delayd_connection_t *conn = nb_container_of(timer, nb_delayd_connection_t, timer);
    if (conn->state == NB_DELAYD_LINGERING) {
        nb_delayd_connection_close(conn);
        return;
    }
    conn->state = NB_DELAYD_READING;
    nb_delayd_answer_ok(conn);
    serve(conn);
}

void nb_delayd_connection_turn(nb_delayd_connection_t *conn)
{
    if (conn->state == NB_DELAYD_READING)
        serve(conn);
    else if (conn->state == NB_DELAYD_LINGERING)
        linger(conn);
    else if (conn->state == NB_DELAYD_WRITING && nb_delayd_answer_resume(conn))
        serve(conn);
}

void nb_delayd_connection_event(nb_delayd_connection_t *conn, uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP)) {
        nb_delayd_connection_close(conn);
        return;
    }
    conn->hung_up = conn->hung_up || (events & EPOLLRDHUP);
    conn->readable = conn->readable || (events & (EPOLLIN | EPOLLRDHUP));
    if (conn->state != NB_DELAYD_READING || conn->readable)
        nb_delayd_connection_turn(conn);
}

int nb_delayd_connection_open(nb_delayd_t *server, int fd)
{
    nb_delayd_connection_t *conn = calloc(1, sizeof(*conn));
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = conn};
    if (!conn || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        int error = conn ? -errno : -ENOMEM;
        free(conn);
        close(fd);
        return error;
    }
    conn->server = server;
    conn->fd = fd;
    conn->timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = on_due};
    nb_list_init(&conn->eager);
    nb_list_append(&server->open, &conn->open);
    nb_delayd_count(&server->stats.accepted, 1);
    nb_delayd_count(&server->stats.open, 1);
    return 0;
}

void nb_delayd_connection_close(nb_delayd_connection_t *conn)
{
    nb_delayd_t *server = conn->server;
    nb_list_remove(&conn->open);
    nb_list_remove(&conn->eager);
    nb_timers_remove(&server->timers, &conn->timer);
    nb_delayd_count(&server->stats.open, -1);
    server->out_bytes = 0;
    close(conn->fd);
    free(conn->unread);
    free(conn->unsent);
    free(conn);
}
#endif
