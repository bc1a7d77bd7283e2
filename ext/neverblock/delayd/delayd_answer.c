/* delayd_answer.c - makes answers and sends them. Pure C. Read after: delayd_answer.h. */
#include "delayd/delayd_answer.h"

#ifdef NB_EPOLL
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PARTS 9               /* in one send: what was gathered, and 512 KB of a long body */
#define HEAD_BYTES 256        /* more than the longest head or refusal of ours */
#define SMALL_BODY_BYTES 4096 /* copied beside its head; a longer one is sent from the pattern */

static void watch_room(nb_delayd_connection_t *conn)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = conn};
    if (conn->watches_room)
        return;
    if (epoll_ctl(conn->server->epoll, EPOLL_CTL_MOD, conn->fd, &event) < 0)
        conn->state = NB_DELAYD_BROKEN;
    conn->watches_room = true;
}

/* The pieces still to send: the head and small answers, then the body from the pattern. */
static size_t gather(nb_delayd_connection_t *conn, struct iovec *parts, const char *bytes,
                     size_t count)
{
    size_t used = 0;
    uint64_t left = conn->body_bytes - conn->body_at;
    if (count > 0)
        parts[used++] = (struct iovec){(void *)bytes, count};
    while (left > 0 && used < PARTS) {
        size_t size = NB_DELAYD_PATTERN_BYTES - 4; /* a multiple of 4, so each "done" stays whole */
        if (size > left)
            size = (size_t)left;
        parts[used++] = (struct iovec){conn->server->pattern + conn->body_at % 4, size};
        left -= size;
    }
    return used;
}

/* Sends bytes and then the body, as far as one call goes, so that a long body leaves the other
 * connections their turns. Returns how many of bytes were sent. The state becomes WRITING if
 * something is left, and BROKEN if the connection is. */
static size_t transmit(nb_delayd_connection_t *conn, const char *bytes, size_t count)
{
    struct iovec parts[PARTS];
    struct msghdr message = {.msg_iov = parts};
    size_t of_bytes;
    message.msg_iovlen = gather(conn, parts, bytes, count);
    if (message.msg_iovlen == 0)
        return 0;
    ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
        conn->state =
            errno == EAGAIN || errno == EWOULDBLOCK ? NB_DELAYD_WRITING : NB_DELAYD_BROKEN;
        if (conn->state == NB_DELAYD_WRITING)
            watch_room(conn);
        return 0;
    }
    of_bytes = (size_t)sent < count ? (size_t)sent : count;
    conn->body_at += (uint64_t)sent - of_bytes;
    if (of_bytes < count || conn->body_at < conn->body_bytes) {
        conn->state = NB_DELAYD_WRITING;
        nb_delayd_want_turn(conn);
    }
    return of_bytes;
}

void nb_delayd_answer_send(nb_delayd_connection_t *conn)
{
    nb_delayd_t *server = conn->server;
    size_t sent = transmit(conn, server->out, server->out_bytes), left = server->out_bytes - sent;
    if (conn->state == NB_DELAYD_WRITING && left > 0) {
        conn->unsent = malloc(left);
        if (conn->unsent) {
            memcpy(conn->unsent, server->out + sent, left);
            conn->unsent_bytes = (uint32_t)left;
            conn->unsent_at = 0;
        } else {
            conn->state = NB_DELAYD_BROKEN;
        }
    }
    server->out_bytes = 0;
}

bool nb_delayd_answer_resume(nb_delayd_connection_t *conn)
{
    conn->state = NB_DELAYD_READING;
    conn->unsent_at += (uint32_t)transmit(conn, conn->unsent + conn->unsent_at,
                                          conn->unsent_bytes - conn->unsent_at);
    if (conn->state == NB_DELAYD_WRITING)
        return false;
    free(conn->unsent);
    conn->unsent = NULL;
    conn->unsent_bytes = conn->unsent_at = 0;
    return true;
}

static void append(nb_delayd_t *server, const char *bytes, size_t count)
{
    memcpy(server->out + server->out_bytes, bytes, count);
    server->out_bytes += count;
}

#define APPEND(server, words) append(server, words, sizeof(words) - 1)

static void append_number(nb_delayd_t *server, uint64_t number)
{
    char digits[20], *at = digits + sizeof(digits);
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    append(server, at, (size_t)(digits + sizeof(digits) - at));
}

void nb_delayd_answer_ok(nb_delayd_connection_t *conn)
{
    nb_delayd_t *server = conn->server;
    const nb_delayd_request_t *request = &conn->request;
    conn->closing = server->options.close || !request->keep_alive;
    APPEND(server, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ");
    append_number(server, request->body_bytes);
    if (conn->closing)
        APPEND(server, "\r\nConnection: close\r\n\r\n");
    else if (request->http10)
        APPEND(server, "\r\nConnection: keep-alive\r\n\r\n");
    else
        APPEND(server, "\r\n\r\n");
    nb_delayd_count(&server->stats.answered, 1);
    if (request->head_only)
        return;
    if (request->body_bytes <= SMALL_BODY_BYTES) {
        append(server, server->pattern, (size_t)request->body_bytes);
        return;
    }
    conn->body_bytes = request->body_bytes;
    conn->body_at = 0;
    nb_delayd_answer_send(conn);
}

void nb_delayd_answer_bad(nb_delayd_connection_t *conn, const char *problem)
{
    nb_delayd_t *server = conn->server;
    APPEND(server, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                   "Content-Length: ");
    append_number(server, strlen(problem) + 1);
    APPEND(server, "\r\n\r\n");
    append(server, problem, strlen(problem));
    APPEND(server, "\n");
    nb_delayd_count(&server->stats.refused, 1);
    conn->closing = conn->refused = true;
}

bool nb_delayd_answer_room(nb_delayd_connection_t *conn, const nb_delayd_request_t *request)
{
    nb_delayd_t *server = conn->server;
    bool alone = request->problem == NULL && (request->delay_ns > 0 || request->content_bytes > 0 ||
                                              request->body_bytes > SMALL_BODY_BYTES);
    if (server->out_bytes > 0 &&
        (alone || server->out_bytes + HEAD_BYTES + SMALL_BODY_BYTES > NB_DELAYD_OUT_BYTES))
        nb_delayd_answer_send(conn);
    return conn->state == NB_DELAYD_READING;
}
#endif
