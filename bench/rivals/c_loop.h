/* c_loop.h - clients and a server of one small protocol over one epoll loop, as plain as C allows:
 * what any runtime on this kernel must stay below. Included by c_echo.c and c_http.c, which give
 * the protocol. Level-triggered; no allocation after the start.
 *
 *   NAME both CLIENTS MESSAGES SECONDS   clients and server in this process, on this thread
 *   NAME apart CLIENTS SECONDS           the server in a child process, its CPU time is told
 *   NAME load PORT CLIENTS SECONDS       clients of somebody else's server
 *   NAME server [PORT]                   prints its port, serves until standard input ends
 */
#ifndef C_LOOP_H
#define C_LOOP_H

#include "c_common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum role { UNUSED, LISTENER, SERVER, CLIENT, INPUT };

struct peer {
    enum role role;
    size_t got;    /* bytes of the present message */
    unsigned done; /* messages of this connection */
};

/* What the two ends say. */
struct protocol {
    const char *request, *response;
    size_t request_bytes, response_bytes;
    /* Called with bytes that a client sent; answers them. False ends the connection. */
    bool (*serve)(int fd, struct peer *peer, const char *data, size_t bytes);
};

struct loop {
    int epoll, listener;
    struct sockaddr_in address; /* of the server */
    const struct protocol *protocol;
    struct peer *peers; /* by fd */
    size_t peer_count;
    unsigned clients, open, messages; /* messages per connection; 0 means no end */
    uint64_t answers, total, errors;  /* answers: since the clock started */
    bool input_ended, serve_until_alone;
};

static void loop_watch(struct loop *loop, int fd, enum role role)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if ((size_t)fd >= loop->peer_count)
        errno = EMFILE, die("more connections than file descriptors");
    loop->peers[fd] = (struct peer){.role = role};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static void loop_start(struct loop *loop, const struct protocol *protocol)
{
    rlim_t fds = raise_fd_limit();

    loop->protocol = protocol;
    loop->peer_count = fds > 1000000 ? 1000000 : (size_t)fds;
    loop->peers = calloc(loop->peer_count, sizeof(struct peer));
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!loop->peers || loop->epoll < 0)
        die("epoll_create1");
}

static void loop_listen(struct loop *loop, unsigned port)
{
    socklen_t size = sizeof(loop->address);

    loop->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    loop->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    loop->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(loop->listener, (struct sockaddr *)&loop->address, size) < 0 ||
        listen(loop->listener, 4096) < 0)
        die("listen");
    getsockname(loop->listener, (struct sockaddr *)&loop->address, &size);
}

/* Small messages on loopback always fit an empty socket buffer; anything else is an error. */
static void send_all(struct loop *loop, int fd, const char *data, size_t bytes)
{
    if (write(fd, data, bytes) != (ssize_t)bytes)
        loop->errors++;
}

static void client_open(struct loop *loop)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&loop->address, sizeof(loop->address)) < 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    loop_watch(loop, fd, CLIENT);
    send_all(loop, fd, loop->protocol->request, loop->protocol->request_bytes);
}

static void client_read(struct loop *loop, int fd, const char *data, size_t bytes)
{
    const struct protocol *protocol = loop->protocol;
    struct peer *peer = &loop->peers[fd];

    if (peer->got + bytes > protocol->response_bytes ||
        memcmp(protocol->response + peer->got, data, bytes) != 0) {
        loop->errors++;
        peer->got = 0;
        bytes = protocol->response_bytes;
    }
    peer->got += bytes;
    if (peer->got < protocol->response_bytes)
        return;
    peer->got = 0;
    loop->answers++;
    loop->total++;
    if (loop->messages && ++peer->done == loop->messages) {
        close(fd);
        client_open(loop);
    } else {
        send_all(loop, fd, protocol->request, protocol->request_bytes);
    }
}

static void server_accept(struct loop *loop)
{
    int one = 1, fd;

    while ((fd = accept4(loop->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        loop_watch(loop, fd, SERVER);
        loop->open++;
    }
}

static void peer_read(struct loop *loop, int fd)
{
    static char data[65536];
    struct peer *peer = &loop->peers[fd];
    ssize_t bytes = read(fd, data, sizeof(data));

    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return; /* an event of a connection that had this number before */
    if (peer->role == INPUT) {
        loop->input_ended = bytes <= 0;
    } else if (peer->role == CLIENT && bytes > 0) {
        client_read(loop, fd, data, (size_t)bytes);
    } else if (peer->role == CLIENT) {
        errno = ECONNRESET;
        die("the server closed a connection");
    } else if (bytes <= 0 || !loop->protocol->serve(fd, peer, data, (size_t)bytes)) {
        close(fd);
        loop->open--;
    }
}

/* Serves events until the time is over (0: no end), or what the mode waits for has happened. */
static void loop_run(struct loop *loop, double until)
{
    struct epoll_event events[256];
    bool served = false;

    while (!loop->input_ended && (until == 0 || now() < until)) {
        int count = epoll_wait(loop->epoll, events, 256, until == 0 ? -1 : 100);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;

            if (loop->peers[fd].role == LISTENER)
                server_accept(loop);
            else
                peer_read(loop, fd);
        }
        served |= loop->open > 0;
        if (loop->serve_until_alone && served && loop->open == 0)
            return;
    }
}

/* Opens the clients, lets them run in, counts for so many seconds. Returns the time it took. */
static double loop_count(struct loop *loop, unsigned clients, double seconds, double *cpu)
{
    double started, spent;

    for (unsigned i = 0; i < clients; i++)
        client_open(loop);
    while (loop->total == 0) /* the server may still be on its way up */
        loop_run(loop, now() + 0.01);
    loop_run(loop, now() + (seconds < 1.5 ? seconds / 5 : 0.3));
    loop->answers = 0;
    started = now();
    spent = cpu_of(RUSAGE_SELF);
    loop_run(loop, started + seconds);
    *cpu = cpu_of(RUSAGE_SELF) - spent;
    return now() - started;
}

/* total - the answers that the CPU time paid for */
static void print_sample(struct loop *loop, double elapsed, double cpu, uint64_t total)
{
    printf("{\"value\": %.3f, \"operations\": %llu, \"total\": %llu, \"elapsed\": %.6f, "
           "\"cpu\": %.6f, \"errors\": %llu, \"metrics\": {\"cpu_us_per_op\": %.4f}, "
           "\"notes\": []}\n",
           (double)loop->answers / elapsed, (unsigned long long)loop->answers,
           (unsigned long long)total, elapsed, cpu, (unsigned long long)loop->errors,
           total ? cpu / (double)total * 1e6 : 0.0);
}

static int run_both(struct loop *loop, unsigned clients, unsigned messages, double seconds)
{
    double cpu, elapsed;

    loop_listen(loop, 0);
    loop_watch(loop, loop->listener, LISTENER);
    loop->messages = messages;
    elapsed = loop_count(loop, clients, seconds, &cpu);
    print_sample(loop, elapsed, cpu, loop->answers);
    return 0;
}

static int run_load(struct loop *loop, unsigned port, unsigned clients, double seconds)
{
    double cpu, elapsed;

    loop->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    loop->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    elapsed = loop_count(loop, clients, seconds, &cpu);
    print_sample(loop, elapsed, cpu, loop->total);
    return 0;
}

static int run_apart(struct loop *loop, unsigned clients, double seconds)
{
    double cpu, elapsed;
    pid_t child;
    int status;

    loop_listen(loop, 0);
    child = fork();
    if (child == 0) {
        loop_watch(loop, loop->listener, LISTENER);
        loop->serve_until_alone = true;
        loop_run(loop, 0);
        _exit(0);
    }
    close(loop->epoll); /* the child's own now */
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    elapsed = loop_count(loop, clients, seconds, &cpu);
    for (size_t fd = 0; fd < loop->peer_count; fd++)
        if (loop->peers[fd].role == CLIENT)
            close((int)fd);
    close(loop->listener);
    if (waitpid(child, &status, 0) < 0 || status != 0)
        loop->errors++;
    cpu = cpu_of(RUSAGE_CHILDREN);
    print_sample(loop, elapsed, cpu, loop->total);
    return 0;
}

static int run_server(struct loop *loop, unsigned port)
{
    loop_listen(loop, port);
    loop_watch(loop, loop->listener, LISTENER);
    loop_watch(loop, STDIN_FILENO, INPUT);
    printf("%u\n", (unsigned)ntohs(loop->address.sin_port));
    fflush(stdout);
    loop_run(loop, 0);
    return 0;
}

static int loop_main(int argc, char **argv, const struct protocol *protocol)
{
    struct loop loop = {0};
    const char *mode = argc > 1 ? argv[1] : "";

    loop_start(&loop, protocol);
    if (!strcmp(mode, "both") && argc == 5)
        return run_both(&loop, (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), atof(argv[4]));
    if (!strcmp(mode, "apart") && argc == 4)
        return run_apart(&loop, (unsigned)atoi(argv[2]), atof(argv[3]));
    if (!strcmp(mode, "load") && argc == 5)
        return run_load(&loop, (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), atof(argv[4]));
    if (!strcmp(mode, "server") && (argc == 2 || argc == 3))
        return run_server(&loop, argc == 3 ? (unsigned)atoi(argv[2]) : 0);
    fprintf(stderr,
            "usage: %s both CLIENTS MESSAGES SECONDS | apart CLIENTS SECONDS |"
            " load PORT CLIENTS SECONDS | server [PORT]\n",
            argv[0]);
    return 2;
}

#endif
