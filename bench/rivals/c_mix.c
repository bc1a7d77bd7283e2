/* c_mix.c - keep-alive clients that ask one path and, every so many requests, a slow one; tells how
 * long it took and how long single answers took. For servers whose answers differ, unlike c_http.
 *
 *   c_mix PORT CLIENTS REQUESTS SECONDS PATH [EVERY SLOW_PATH]
 *
 * Ends after REQUESTS, or after SECONDS where REQUESTS is 0. A line with the number of answers goes
 * to standard error ten times a second. An answer that is not 200 is an error, and so is a lost
 * connection.
 */
#include "c_common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 65536, TICK_MS = 100, LATENCIES = 1 << 22 };

struct client {
    int fd;
    bool busy, slow;
    double started;
    size_t got;
    char data[BUFFER];
};

struct mix {
    int epoll;
    struct sockaddr_in address;
    unsigned clients, requests, every;
    double seconds, until;
    const char *path, *slow_path;
    unsigned sent, answered, errors, slow;
    float *latencies, *fast; /* in ms */
    unsigned fast_count;
    struct client *client;
};

static void client_open(struct mix *mix, struct client *client)
{
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 ||
        connect(client->fd, (struct sockaddr *)&mix->address, sizeof(mix->address)) < 0)
        die("connect");
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(mix->epoll, EPOLL_CTL_ADD, client->fd, &event) < 0)
        die("epoll_ctl");
    client->got = 0;
}

static bool more(const struct mix *mix)
{
    return mix->requests ? mix->sent < mix->requests : now() < mix->until;
}

static void client_ask(struct mix *mix, struct client *client)
{
    char request[512];
    int bytes;

    client->busy = more(mix);
    if (!client->busy)
        return;
    mix->sent++;
    client->slow = mix->every && mix->sent % mix->every == 0;
    mix->slow += client->slow;
    bytes = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     client->slow ? mix->slow_path : mix->path);
    client->started = now();
    client->got = 0;
    if (write(client->fd, request, (size_t)bytes) != bytes)
        mix->errors++;
}

/* The length of the whole answer, 0 while that is not known. */
static size_t answer_bytes(const char *data, size_t got)
{
    char *end = memmem(data, got, "\r\n\r\n", 4), *length, *chunks;

    if (!end)
        return 0;
    *end = '\0';
    length = strcasestr(data, "\r\ncontent-length:");
    chunks = strcasestr(data, "\r\ntransfer-encoding:");
    *end = '\r';
    if (length)
        return (size_t)(end + 4 - data) + strtoul(length + 17, NULL, 10);
    if (chunks && got > 5 && !memcmp(data + got - 5, "0\r\n\r\n", 5))
        return got;
    return 0;
}

static void client_lost(struct mix *mix, struct client *client)
{
    close(client->fd);
    mix->errors += client->busy;
    mix->answered += client->busy;
    client_open(mix, client);
    client_ask(mix, client);
}

static void client_read(struct mix *mix, struct client *client)
{
    ssize_t bytes =
        recv(client->fd, client->data + client->got, BUFFER - 1 - client->got, MSG_DONTWAIT);
    size_t whole;
    float ms;

    if (bytes < 0 && errno == EAGAIN)
        return;
    if (bytes <= 0) {
        client_lost(mix, client);
        return;
    }
    client->got += (size_t)bytes;
    client->data[client->got] = '\0';
    whole = answer_bytes(client->data, client->got);
    if (!whole || client->got < whole) {
        if (client->got == BUFFER - 1)
            client->got = 0, mix->errors++; /* no answer of ours is so long */
        return;
    }
    mix->errors += strncmp(client->data, "HTTP/1.1 200", 12) != 0;
    ms = (float)((now() - client->started) * 1000);
    if (mix->answered < LATENCIES)
        mix->latencies[mix->answered] = ms;
    if (!client->slow && mix->fast_count < LATENCIES)
        mix->fast[mix->fast_count++] = ms;
    mix->answered++;
    client_ask(mix, client);
}

static bool ended(const struct mix *mix)
{
    return mix->requests ? mix->answered >= mix->requests : now() >= mix->until;
}

static void run(struct mix *mix)
{
    struct epoll_event events[256];
    double next = now();

    for (unsigned i = 0; i < mix->clients; i++)
        client_ask(mix, &mix->client[i]);
    while (!ended(mix)) {
        int count = epoll_wait(mix->epoll, events, 256, TICK_MS);

        for (int i = 0; i < count; i++)
            client_read(mix, events[i].data.ptr);
        if (now() >= next) {
            fprintf(stderr, "%u\n", mix->answered);
            next += TICK_MS / 1e3;
        }
    }
}

static int compare(const void *one, const void *two)
{
    float a = *(const float *)one, b = *(const float *)two;
    return (a > b) - (a < b);
}

static double quantile(const float *sorted, unsigned count, double share)
{
    return count ? (double)sorted[(unsigned)((count - 1) * share)] : 0;
}

static void print(struct mix *mix, double elapsed, double cpu)
{
    static const unsigned shares[] = {50, 66, 75, 80, 90, 95, 98, 99}; /* those of ab */
    unsigned count = mix->answered < LATENCIES ? mix->answered : LATENCIES;

    qsort(mix->latencies, count, sizeof(float), compare);
    qsort(mix->fast, mix->fast_count, sizeof(float), compare);
    printf(
        "{\"elapsed\": %.6f, \"answers\": %u, \"errors\": %u, \"slow\": %u, \"client_cpu\": %.3f, "
        "\"longest_ms\": %.3f, \"fast_p50_ms\": %.3f, \"fast_p99_ms\": %.3f",
        elapsed, mix->answered, mix->errors, mix->slow, cpu, quantile(mix->latencies, count, 1),
        quantile(mix->fast, mix->fast_count, 0.5), quantile(mix->fast, mix->fast_count, 0.99));
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        printf(", \"p%u_ms\": %.3f", shares[i], quantile(mix->latencies, count, shares[i] / 100.0));
    printf("}\n");
}

int main(int argc, char **argv)
{
    struct mix mix = {0};
    double started;

    if (argc != 6 && argc != 8) {
        fprintf(stderr, "usage: %s PORT CLIENTS REQUESTS SECONDS PATH [EVERY SLOW_PATH]\n",
                argv[0]);
        return 2;
    }
    raise_fd_limit();
    mix.address = (struct sockaddr_in){.sin_family = AF_INET};
    mix.address.sin_port = htons((uint16_t)atoi(argv[1]));
    mix.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    mix.clients = (unsigned)atoi(argv[2]);
    mix.requests = (unsigned)atoi(argv[3]);
    mix.seconds = atof(argv[4]);
    mix.path = argv[5];
    mix.every = argc > 6 ? (unsigned)atoi(argv[6]) : 0;
    mix.slow_path = argc > 7 ? argv[7] : "/";
    mix.epoll = epoll_create1(EPOLL_CLOEXEC);
    mix.client = calloc(mix.clients, sizeof(struct client));
    mix.latencies = calloc(LATENCIES, sizeof(float));
    mix.fast = calloc(LATENCIES, sizeof(float));
    if (!mix.client || !mix.latencies || !mix.fast)
        die("calloc");
    for (unsigned i = 0; i < mix.clients; i++)
        client_open(&mix, &mix.client[i]);
    started = now();
    mix.until = started + mix.seconds;
    run(&mix);
    print(&mix, now() - started, cpu_of(RUSAGE_SELF));
    return 0;
}
