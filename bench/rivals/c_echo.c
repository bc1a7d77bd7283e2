/* c_echo.c - echo over one epoll loop: 512 bytes, or one byte on some of many connections. Read
 * after: c_loop.h.
 *
 *   c_echo wakes PORT SOCKETS BUSY SECONDS   see bench/workloads/wakes.rb
 */
#include "c_loop.h"

static char message[512];

static bool serve(int fd, struct peer *peer, const char *data, size_t bytes)
{
    (void)peer;
    return write(fd, data, bytes) == (ssize_t)bytes;
}

/* Many connections to a server in another process, all in one epoll set. */
struct many {
    int epoll;
    int *fds;
    unsigned count, busy;
    uint64_t wakes, errors;
};

static void many_open(struct many *many, const struct loop *loop)
{
    many->epoll = epoll_create1(EPOLL_CLOEXEC);
    many->fds = calloc(many->count, sizeof(int));
    for (unsigned i = 0; i < many->count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&loop->address, sizeof(loop->address)) < 0)
            die("connect");
        fcntl(fd, F_SETFL, O_NONBLOCK);
        many->fds[i] = event.data.fd = fd;
        epoll_ctl(many->epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

/* One byte to each of some connections; done when each has come back. */
static void many_turn(struct many *many)
{
    struct epoll_event events[256];
    unsigned back = 0;
    char byte;

    for (unsigned i = 0; i < many->busy; i++) { /* shuffles the first ones: no connection twice */
        unsigned other = i + (unsigned)random() % (many->count - i);
        int fd = many->fds[other];

        many->fds[other] = many->fds[i];
        many->fds[i] = fd;
        many->errors += write(fd, "!", 1) != 1;
    }
    while (back < many->busy) {
        int count = epoll_wait(many->epoll, events, 256, -1);

        for (int i = 0; i < count; i++, back++)
            many->errors += read(events[i].data.fd, &byte, 1) != 1 || byte != '!';
    }
    many->wakes += many->busy;
}

static int run_wakes(char **argv)
{
    struct loop loop = {0};
    struct many many = {.count = (unsigned)atoi(argv[3]), .busy = (unsigned)atoi(argv[4])};
    double seconds = atof(argv[5]), started, cpu, elapsed;

    loop.address = (struct sockaddr_in){.sin_family = AF_INET};
    loop.address.sin_port = htons((uint16_t)atoi(argv[2]));
    loop.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (many.busy > many.count)
        many.busy = many.count;
    many_open(&many, &loop);
    for (int i = 0; i < 10; i++)
        many_turn(&many);
    many.wakes = 0;
    started = now();
    cpu = cpu_of(RUSAGE_SELF);
    while (now() < started + seconds)
        many_turn(&many);
    cpu = cpu_of(RUSAGE_SELF) - cpu;
    elapsed = now() - started;
    printf("{\"value\": %.4f, \"operations\": %llu, \"elapsed\": %.6f, \"cpu\": %.6f, "
           "\"errors\": %llu, \"metrics\": {\"us_per_wake\": %.4f}, \"notes\": []}\n",
           cpu / (double)many.wakes * 1e6, (unsigned long long)many.wakes, elapsed, cpu,
           (unsigned long long)many.errors, elapsed / (double)many.wakes * 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    const struct protocol echo = {.request = message,
                                  .response = message,
                                  .request_bytes = sizeof(message),
                                  .response_bytes = sizeof(message),
                                  .serve = serve};

    if (argc == 6 && !strcmp(argv[1], "wakes"))
        return run_wakes(argv);
    memset(message, 'x', sizeof(message));
    return loop_main(argc, argv, &echo);
}
