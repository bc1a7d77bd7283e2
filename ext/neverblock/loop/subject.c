/* subject.c - what a fiber waits for, in a few words. Uses ruby.h. Read after: subject.h, wait.h.
 */
#include "loop/subject.h"
#include "loop/stacks.h"
#include "loop/wait.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define EPHEMERAL 32768 /* from here on, the kernel usually chose the port */

typedef struct {
    char host[INET6_ADDRSTRLEN];
    unsigned port;
} end_t;

static bool end_of(const struct sockaddr_storage *address, end_t *end)
{
    const void *bytes = NULL;
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *ip = (const void *)address;
        bytes = &ip->sin_addr;
        end->port = ntohs(ip->sin_port);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *ip = (const void *)address;
        bytes = &ip->sin6_addr;
        end->port = ntohs(ip->sin6_port);
    }
    return bytes && inet_ntop(address->ss_family, bytes, end->host, sizeof(end->host));
}

/* The path of a UNIX socket, or "". */
static const char *path_of(const struct sockaddr_storage *address, socklen_t size)
{
    bool named = address->ss_family == AF_UNIX && size > offsetof(struct sockaddr_un, sun_path);
    return named ? ((const struct sockaddr_un *)(const void *)address)->sun_path : "";
}

static void tell_ip(const end_t *own, const end_t *peer, char *text, size_t size)
{
    const end_t *end = peer ? peer : own;
    bool six = strchr(end->host, ':');
    if (peer && peer->port >= EPHEMERAL && own->port < EPHEMERAL)
        snprintf(text, size, "clients of port %u", own->port);
    else if (peer && peer->port >= EPHEMERAL) /* such ports mean nothing to a reader */
        snprintf(text, size, "%s", end->host);
    else
        snprintf(text, size, "%s%s%s:%u", six ? "[" : "", end->host, six ? "]" : "", end->port);
}

static const char *kind_of_file(int fd)
{
    struct stat status;
    if (fstat(fd, &status))
        return "a closed file";
    return S_ISFIFO(status.st_mode) ? "a pipe" : isatty(fd) ? "a terminal" : "a file";
}

static void tell_file(int fd, char *text, size_t size)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    if (getsockname(fd, (struct sockaddr *)&own, &own_size)) {
        snprintf(text, size, "%s", kind_of_file(fd));
        return;
    }
    bool connected = !getpeername(fd, (struct sockaddr *)&peer, &peer_size);
    end_t own_end = {0}, peer_end = {0};
    if (end_of(&own, &own_end)) {
        tell_ip(&own_end, connected && end_of(&peer, &peer_end) ? &peer_end : NULL, text, size);
        return;
    }
    const char *path = path_of(&peer, connected ? peer_size : 0);
    if (!*path)
        path = path_of(&own, own_size);
    snprintf(text, size, "%s%.90s", *path ? "unix:" : "a UNIX socket", path);
}

static void tell_io(const nb_park_t *park, char *text, size_t size)
{
    if (!park->watch_count)
        return;
    const nb_watch_t *watch = &park->watches[0].watch;
    char file[NB_STACK_SUBJECT];
    tell_file(watch->fd, file, sizeof(file));
    snprintf(text, size, "%s %.70s", watch->mask & NB_READABLE ? "read" : "write", file);
}

static void tell_lock(VALUE blocker, char *text, size_t size)
{
    bool plain = blocker && !RB_SPECIAL_CONST_P(blocker) && RBASIC_CLASS(blocker);
    snprintf(text, size, "%s", plain ? rb_obj_classname(blocker) : "a lock of Ruby's own");
}

void nb_subject_of(const nb_park_t *park, char *text, size_t size)
{
    *text = '\0';
    switch (park->kind) {
    case NB_PARK_IO:
        tell_io(park, text, size);
        break;
    case NB_PARK_BLOCK:
        tell_lock(park->blocker, text, size);
        break;
    case NB_PARK_RESOLVE:
        if (park->blocker && RB_TYPE_P(park->blocker, T_STRING))
            snprintf(text, size, "%.*s", (int)RSTRING_LEN(park->blocker),
                     RSTRING_PTR(park->blocker));
        break;
    default:
        break;
    }
}
