/* listener.c - accepting connections while there is room. Uses ruby.h.
 *
 * Read after: listener.h, events.h.
 */
#include "server/listener.h"
#include "base/portable.h"
#include "server/events.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct {
    nb_watch_t watch;
    nb_list_t link; /* server->listeners */
    nb_server_t *server;
    uint16_t port;
    bool local, https, readable;
} nb_listener_t;

#define RETRY_NS UINT64_C(100000000) /* after EMFILE */

/* After this many, everything else gets its turn, and so do other workers on this listener. */
#define ACCEPTS_A_TURN 8
#define COURTESY_NS UINT64_C(20000)

/* The kernel takes this much of an answer beyond what the client's window admits; otherwise it
 * would take 4 MB for each client that does not read. Less would cost more wake-ups per
 * megabyte. */
#define UNSENT_BYTES (1 << 20)

/* A queue of 0 is no reason to accept nobody: whoever asks while no fiber is free gets 503. */
static bool has_room(const nb_server_t *server)
{
    return server->accepting && server->connection_count < server->options.connections &&
           (!server->runnable_count || server->runnable_count < server->options.queue);
}

/* Fds or memory are short, or it is the others' turn: connections stay with the kernel
 * meanwhile. */
static void accept_after(nb_server_t *server, uint64_t ns)
{
    nb_loop_set_timer(server->loop, &server->accept_timer, server->loop->now_ns + ns);
}

/* Of several workers on a listener, one that is already running would take every connection of a
 * burst before the others have woken up, and keep them. So a worker waits longer the more
 * connections it has. */
static uint64_t courtesy(const nb_server_t *server)
{
    size_t count = server->connection_count < 50 ? server->connection_count : 50;
    return server->options.shared ? count * COURTESY_NS : 0;
}

/* Returns 0 if it is worth trying again, -EMFILE if fds or memory are short, -EAGAIN if nobody
 * waits, or another process was quicker. */
static int accept_one(nb_listener_t *listener)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    int fd = nb_accept(listener->watch.fd, (struct sockaddr *)&peer, &size);
    if (fd >= 0) {
        nb_arrival_t arrival = {(struct sockaddr *)&peer, listener->port, listener->local,
                                listener->https};
        if (nb_conn_open(listener->server, fd, &arrival))
            listener->server->counters.accepted++;
        return 0;
    }
    if (errno == EINTR || errno == ECONNABORTED)
        return 0;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        return -EMFILE;
    return -EAGAIN;
}

static void accept_some(nb_listener_t *listener)
{
    nb_server_t *server = listener->server;
    if (server->accept_timer.index != NB_TIMER_IDLE)
        return;
    for (int accepted = 0; listener->readable && has_room(server); accepted++) {
        if (accepted == ACCEPTS_A_TURN) {
            accept_after(server, courtesy(server));
            return;
        }
        int result = accept_one(listener);
        if (result == -EMFILE) {
            accept_after(server, RETRY_NS);
            return;
        }
        if (result == 0)
            continue;
        listener->readable = false;
        nb_fdtable_again(&server->loop->fds, &listener->watch, NB_READABLE);
    }
}

static void on_ready(nb_watch_t *watch, int mask)
{
    nb_listener_t *listener = nb_container_of(watch, nb_listener_t, watch);
    nb_server_t *server = listener->server;
    (void)mask;
    listener->readable = true;
    if (server->accept_timer.index == NB_TIMER_IDLE && courtesy(server))
        accept_after(server, courtesy(server));
    else
        accept_some(listener);
}

/* Accepted sockets inherit these options. */
static void set_options(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
#ifdef TCP_NOTSENT_LOWAT
    int unsent = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
#endif
}

int nb_listener_add(nb_server_t *server, int fd, bool local, bool https, uint16_t port)
{
    nb_listener_t *listener = calloc(1, sizeof(*listener));
    if (!listener)
        return -ENOMEM;
    listener->watch = (nb_watch_t){.fd = fd, .mask = NB_READABLE | NB_ONCE, .on_ready = on_ready};
    listener->server = server;
    listener->local = local;
    listener->https = https;
    listener->port = port;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); /* inherited ones may block */
    if (!local)
        set_options(fd);
    int result = nb_fdtable_add(&server->loop->fds, &listener->watch);
    if (result != 0) {
        free(listener);
        return result < 0 ? result : -EINVAL;
    }
    nb_list_append(&server->listeners, &listener->link);
    return 0;
}

void nb_listener_resume(nb_server_t *server)
{
    for (nb_list_t *item = server->listeners.next; item != &server->listeners; item = item->next) {
        nb_listener_t *listener = nb_container_of(item, nb_listener_t, link);
        if (listener->readable)
            accept_some(listener);
    }
}

/* The limits are for later connections. Takes no more than the kernel holds at a time: while other
 * processes use the listener, there may always be another one. */
bool nb_listener_accept_rest(nb_server_t *server, size_t most)
{
    bool complete = true;
    nb_timers_remove(&server->loop->timers, &server->accept_timer);
    for (nb_list_t *item = server->listeners.next; item != &server->listeners; item = item->next) {
        int result = 0;
        for (size_t count = 0; result == 0 && count < most; count++)
            result = accept_one(nb_container_of(item, nb_listener_t, link));
        complete = complete && result != -EMFILE;
    }
    return complete;
}

void nb_listener_close_all(nb_server_t *server)
{
    while (!nb_list_empty(&server->listeners)) {
        nb_listener_t *listener = nb_container_of(server->listeners.next, nb_listener_t, link);
        nb_list_remove(&listener->link);
        nb_fdtable_remove(&server->loop->fds, &listener->watch);
        free(listener); /* the fd belongs to Ruby's listener object */
    }
}
