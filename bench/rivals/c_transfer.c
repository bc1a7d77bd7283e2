/* c_transfer.c - one transfer of `nb iotest` as plain as C allows: what Ruby must stay below. It
 * takes the letters of that program and prints the same JSON.
 *
 *   c_transfer -s [-n] [--out FILE] [-k CHUNK] [-b SIZE]     prints its port to standard error
 *   c_transfer -c -p PORT (-n -l LENGTH | -f FILE) [-t] [-k CHUNK] [-b SIZE]
 */
#include "c_common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    bool server, network, transmit;
    const char *file, *out;
    int port, buffer;
    size_t chunk;
    uint64_t length;
} options = {.chunk = 65536};

static char *block;

/* 64k is 64,000 and 64K 65,536. */
static uint64_t bytes(const char *text)
{
    static const char small[] = "kmg", large[] = "KMG";
    char *suffix;
    uint64_t value = strtoull(text, &suffix, 10);
    const char *found;

    if (*suffix && (found = strchr(small, *suffix)))
        for (; found >= small; found--)
            value *= 1000;
    else if (*suffix && (found = strchr(large, *suffix)))
        for (; found >= large; found--)
            value *= 1024;
    return value;
}

static struct sockaddr_in address(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void set_buffers(int fd)
{
    if (!options.buffer)
        return;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options.buffer, sizeof(options.buffer));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options.buffer, sizeof(options.buffer));
}

static int accept_one(void)
{
    struct sockaddr_in here = address(options.port);
    socklen_t size = sizeof(here);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    set_buffers(listener);
    if (bind(listener, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&here, &size) < 0)
        die("listen");
    fprintf(stderr, "port %d\n", ntohs(here.sin_port));
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        die("accept");
    return fd;
}

static void write_all(int fd, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = write(fd, block + done, size - done);
        if (written < 0)
            die("write");
        done += (size_t)written;
    }
}

static uint64_t receive(int fd)
{
    const char *path = options.network ? "/dev/null" : options.out;
    int target = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    uint64_t total = 0;
    ssize_t got;

    if (target < 0)
        die(path);
    while ((got = read(fd, block, options.chunk)) > 0) {
        if (!options.network)
            write_all(target, (size_t)got);
        total += (uint64_t)got;
    }
    if (got < 0)
        die("read");
    close(target);
    return total;
}

static uint64_t send_random(int fd)
{
    for (uint64_t left = options.length; left;) {
        size_t size = left < options.chunk ? (size_t)left : options.chunk;
        write_all(fd, size);
        left -= size;
    }
    return options.length;
}

static uint64_t send_file(int fd)
{
    int source = open(options.file, O_RDONLY | O_CLOEXEC);
    uint64_t total = 0;
    ssize_t got;

    if (source < 0)
        die(options.file);
    if (options.transmit)
        while ((got = sendfile(fd, source, NULL, 0x7ffff000)) > 0)
            total += (uint64_t)got;
    else
        for (; (got = read(source, block, options.chunk)) > 0; total += (uint64_t)got)
            write_all(fd, (size_t)got);
    if (got < 0)
        die("read");
    return total;
}

static uint64_t transfer(double *start)
{
    uint64_t total;
    int fd = options.server ? accept_one() : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in there = address(options.port);

    *start = now();
    if (options.server) {
        total = receive(fd);
    } else {
        set_buffers(fd);
        if (connect(fd, (struct sockaddr *)&there, sizeof(there)) < 0)
            die("connect");
        total = options.file ? send_file(fd) : send_random(fd);
        shutdown(fd, SHUT_WR);
        (void)!read(fd, block, 1); /* the server closes when it has everything */
    }
    close(fd);
    return total;
}

static void parse(int count, char **words)
{
    static const struct option long_options[] = {{"out", required_argument, NULL, 'O'}, {0}};
    int letter;

    while ((letter = getopt_long(count, words, "sc:np:l:f:tk:b:1J", long_options, NULL)) != -1) {
        switch (letter) {
        case 's':
            options.server = true;
            break;
        case 'n':
            options.network = true;
            break;
        case 't':
            options.transmit = true;
            break;
        case 'p':
            options.port = atoi(optarg);
            break;
        case 'l':
            options.length = bytes(optarg);
            break;
        case 'f':
            options.file = optarg;
            break;
        case 'k':
            options.chunk = (size_t)bytes(optarg);
            break;
        case 'b':
            options.buffer = (int)bytes(optarg);
            break;
        case 'O':
            options.out = optarg;
            break;
        case '?':
            exit(2);
        default:
            break; /* the rest goes without saying */
        }
    }
}

int main(int count, char **words)
{
    struct rusage used;
    double start;

    parse(count, words);
    block = malloc(options.chunk);
    for (size_t done = 0; done < options.chunk; done += 256)
        (void)!getrandom(block + done, options.chunk - done < 256 ? options.chunk - done : 256, 0);
    uint64_t total = transfer(&start);
    double seconds = now() - start;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"bytes\": %llu, \"seconds\": %.6f, \"cpu_user\": %.6f, \"cpu_system\": %.6f}\n",
           (unsigned long long)total, seconds,
           (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6,
           (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6);
    return 0;
}
