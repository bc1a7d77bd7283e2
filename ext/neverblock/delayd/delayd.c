/* delayd.c - the delay server's listener and loop. Pure C. Read after: delayd.h. */
#include "delayd/delayd.h"

#ifdef NB_EPOLL
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "delayd/delayd_connection.h"

#define BATCH 512
#define TIMER_SLACK_NS 1000
#define ACCEPTS 128 /* per turn, before the open connections get theirs */

/* ---- listening ---- */

static int set_flag(int fd, int level, int name)
{
    int on = 1;
    return setsockopt(fd, level, name, &on, sizeof(on));
}

/* Listens on one of the addresses that the name has. Returns the fd or -errno. */
static int listen_on(const nb_delayd_options_t *options, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* Accepted sockets inherit TCP_NODELAY. The kernel cuts the backlog to net.core.somaxconn. */
    if (set_flag(fd, SOL_SOCKET, SO_REUSEADDR) < 0 ||
        (options->shared && set_flag(fd, SOL_SOCKET, SO_REUSEPORT) < 0) ||
        set_flag(fd, IPPROTO_TCP, TCP_NODELAY) < 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, INT_MAX) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static int open_listener(const nb_delayd_options_t *options)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses, *address;
    char port[8];
    int fd = -EADDRNOTAVAIL;
    snprintf(port, sizeof(port), "%u", (unsigned)options->port);
    if (getaddrinfo(options->bind, port, &hints, &addresses) != 0)
        return -EADDRNOTAVAIL;
    for (address = addresses; address && fd < 0; address = address->ai_next)
        fd = listen_on(options, address);
    freeaddrinfo(addresses);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* ---- accepting ---- */

/* epoll returns the pointer that was registered: ours, a connection's, or NULL for the wake fd. */
static int watch(nb_delayd_t *server, int operation, int fd, void *what, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(server->epoll, operation, fd, &event) < 0 ? -errno : 0;
}

/* The listener is level-triggered: while descriptors are short, it would wake us again and again.
 * So epoll ignores it for a pause. */
static void pause_accepting(nb_delayd_t *server)
{
    server->accept_timer.when_ns = nb_clock_now() + NB_DELAYD_PAUSE_NS;
    if (nb_timers_add(&server->timers, &server->accept_timer) == 0)
        watch(server, EPOLL_CTL_MOD, server->listener, server, 0);
}

static void resume_accepting(nb_timer_t *timer)
{
    nb_delayd_t *server = nb_container_of(timer, nb_delayd_t, accept_timer);
    watch(server, EPOLL_CTL_MOD, server->listener, server, EPOLLIN);
}

static void accept_some(nb_delayd_t *server)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 ? nb_delayd_connection_open(server, fd) == 0 : errno == ECONNABORTED)
            continue;
        if (fd >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            pause_accepting(server);
        return;
    }
}

/* ---- the loop ---- */

/* Waits to the nanosecond if the kernel has epoll_pwait2 (5.11), else to the next millisecond. */
static int wait_for_events(nb_delayd_t *server, struct epoll_event *events)
{
    uint64_t next = nb_timers_next(&server->timers), now;
    if (!nb_list_empty(&server->eager))
        return epoll_wait(server->epoll, events, BATCH, 0);
    if (next == NB_NEVER)
        return epoll_wait(server->epoll, events, BATCH, -1);
    now = nb_clock_now();
    next = next > now ? next - now : 0;
#ifdef HAVE_EPOLL_PWAIT2
    struct timespec timeout = {(time_t)(next / NB_NS_PER_S), (long)(next % NB_NS_PER_S)};
    int count = epoll_pwait2(server->epoll, events, BATCH, &timeout, NULL);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) /* EPERM: a sandbox knows it not */
        return count;
#endif
    return epoll_wait(server->epoll, events, BATCH, (int)((next + 999999) / 1000000));
}

static void drain_wake(nb_delayd_t *server)
{
    uint64_t count;
    if (read(server->wake, &count, sizeof(count)) < 0)
        return; /* EAGAIN: another run has drained it */
}

/* A connection that asks for another turn during its turn gets it in the next round. */
static void give_turns(nb_delayd_t *server)
{
    nb_list_t *last = server->eager.prev, *item = NULL;
    while (item != last && !nb_list_empty(&server->eager)) {
        item = server->eager.next;
        nb_list_remove(item);
        nb_delayd_connection_turn(nb_container_of(item, nb_delayd_connection_t, eager));
    }
}

/* Returns true if another thread has written to the wake fd. */
static bool handle(nb_delayd_t *server, const struct epoll_event *events, int count)
{
    bool woken = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == server) {
            accept_some(server);
        } else if (events[i].data.ptr) {
            nb_delayd_connection_event(events[i].data.ptr, events[i].events);
        } else {
            drain_wake(server);
            woken = true;
        }
    }
    return woken;
}

static int serve_until_woken(nb_delayd_t *server)
{
    struct epoll_event events[BATCH];
    bool woken = false;
    while (!__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) {
        int count;
        if (woken)
            return -EINTR;
        count = wait_for_events(server, events);
        if (count < 0 && errno != EINTR)
            return -errno;
        woken = handle(server, events, count);
        if (server->timers.count > 0)
            nb_timers_expire(&server->timers, nb_clock_now());
        give_turns(server);
    }
    return 0;
}

/* The kernel may wake a thread late by its timer slack, by default 50 us. */
int nb_delayd_run(nb_delayd_t *server)
{
    int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), result;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    result = serve_until_woken(server);
    if (slack > 0)
        prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
    return result;
}

void nb_delayd_interrupt(nb_delayd_t *server)
{
    uint64_t one = 1;
    int error = errno;
    if (write(server->wake, &one, sizeof(one)) < 0)
        errno = error; /* EAGAIN: it is awake already */
    errno = error;
}

void nb_delayd_stop(nb_delayd_t *server)
{
    __atomic_store_n(&server->stopping, true, __ATOMIC_RELEASE);
    nb_delayd_interrupt(server);
}

/* ---- from open to close ---- */

static int open_all(nb_delayd_t *server)
{
    int error;
    server->in = malloc(NB_DELAYD_IN_BYTES);
    server->out = malloc(NB_DELAYD_OUT_BYTES);
    server->pattern = malloc(NB_DELAYD_PATTERN_BYTES);
    if (!server->in || !server->out || !server->pattern)
        return -ENOMEM;
    for (size_t i = 0; i < NB_DELAYD_PATTERN_BYTES; i += 4)
        memcpy(server->pattern + i, "done", 4);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll < 0)
        return -errno;
    server->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->wake < 0)
        return -errno;
    server->listener = open_listener(&server->options);
    if (server->listener < 0)
        return server->listener;
    server->port = port_of(server->listener);
    error = watch(server, EPOLL_CTL_ADD, server->wake, NULL, EPOLLIN);
    return error ? error : watch(server, EPOLL_CTL_ADD, server->listener, server, EPOLLIN);
}

int nb_delayd_open(nb_delayd_t *server, const nb_delayd_options_t *options)
{
    int error;
    *server = (nb_delayd_t){.options = *options, .listener = -1, .epoll = -1, .wake = -1};
    server->accept_timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = resume_accepting};
    nb_list_init(&server->open);
    nb_list_init(&server->eager);
    error = open_all(server);
    if (error)
        nb_delayd_close(server);
    server->options.bind = NULL; /* belongs to the caller, and is no longer needed */
    return error;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void nb_delayd_close(nb_delayd_t *server)
{
    while (!nb_list_empty(&server->open))
        nb_delayd_connection_close(
            nb_container_of(server->open.next, nb_delayd_connection_t, open));
    nb_timers_free(&server->timers);
    close_fd(&server->listener);
    close_fd(&server->epoll);
    close_fd(&server->wake);
    free(server->in);
    free(server->out);
    free(server->pattern);
    server->in = server->out = server->pattern = NULL;
}
#endif
