/* peer.c - whether the other end of a file is in this process. Pure C. Read after: peer.h. */
#include "loop/peer.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the condition holds for one of the open files. */
static bool any_file(bool (*condition)(int fd, const void *of), const void *of)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    bool found = false;
    while (folder && !found && (entry = readdir(folder)))
        found = entry->d_name[0] != '.' && condition(atoi(entry->d_name), of);
    if (folder)
        closedir(folder);
    return found;
}

/* ---- pipes ---------------------------------------------------------------------------------- */

typedef struct {
    struct stat file;
    int lacks; /* the access that the other end has and this one has not */
} nb_pipe_end_t;

static bool is_other_end(int fd, const void *of)
{
    const nb_pipe_end_t *end = of;
    struct stat file;
    int access = fcntl(fd, F_GETFL);
    return access >= 0 && fstat(fd, &file) == 0 && file.st_ino == end->file.st_ino &&
           file.st_dev == end->file.st_dev && (access & O_ACCMODE) == end->lacks;
}

static nb_peer_t peer_of_pipe(int fd, const struct stat *file)
{
    int access = fcntl(fd, F_GETFL) & O_ACCMODE;
    nb_pipe_end_t end = {*file, access == O_RDONLY ? O_WRONLY : O_RDONLY};
    return any_file(is_other_end, &end) ? NB_PEER_HERE : NB_PEER_ELSEWHERE;
}

/* ---- sockets -------------------------------------------------------------------------------- */

/* A child may hold the other end of a pair. */
static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

typedef struct {
    struct sockaddr_storage address;
    socklen_t size;
} nb_name_t;

static bool has_name(int fd, const void *of)
{
    const nb_name_t *name = of;
    nb_name_t own = {.size = sizeof(own.address)};
    return getsockname(fd, (struct sockaddr *)&own.address, &own.size) == 0 &&
           own.size == name->size && !memcmp(&own.address, &name->address, own.size);
}

/* The kernel knows who made a pair or a stream, but not who has bound the address that datagrams
 * are sent to.
 */
static nb_peer_t peer_of_unix_socket(int fd, const nb_name_t *peer)
{
    if (has_children())
        return NB_PEER_ELSEWHERE;
#ifdef __linux__
    struct ucred other;
    socklen_t size = sizeof(other);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.pid == getpid())
        return NB_PEER_HERE;
#endif
    bool is_named = peer->size > offsetof(struct sockaddr_un, sun_path);
    return is_named && any_file(has_name, peer) ? NB_PEER_HERE : NB_PEER_ELSEWHERE;
}

/* 0 for an address without a port. */
static in_port_t port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_port;
    return address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port : 0;
}

static bool same_host(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
    if (one->ss_family == AF_INET && other->ss_family == AF_INET)
        return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return one->ss_family == AF_INET6 && other->ss_family == AF_INET6 &&
           !memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr,
                   &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr));
}

/* The type of a socket; -1 for other files. */
static int type_of(int fd)
{
    int type = 0;
    socklen_t size = sizeof(type);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? type : -1;
}

typedef struct {
    in_port_t port;
    int type; /* TCP and UDP have ports of their own */
} nb_port_t;

/* Includes a listening socket, from which nobody has accepted the connection yet. */
static bool has_port(int fd, const void *of)
{
    const nb_port_t *port = of;
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    return type_of(fd) == port->type && getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
           port_of(&own) == port->port;
}

/* Whether only this machine can send to the address: a path, or one such as 127.0.0.1. */
static bool is_local(const nb_name_t *name)
{
    const struct sockaddr_in *ip4 = (const struct sockaddr_in *)&name->address;
    const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)&name->address;
    switch (name->address.ss_family) {
    case AF_UNIX:
        return name->size > offsetof(struct sockaddr_un, sun_path);
    case AF_INET:
        return ntohl(ip4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&ip6->sin6_addr);
    default:
        return false;
    }
}

static nb_peer_t peer_of_socket(int fd)
{
    nb_name_t own = {.size = sizeof(own.address)}, peer = {.size = sizeof(peer.address)};
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
        return NB_PEER_NONE;
    if (getsockname(fd, (struct sockaddr *)&own.address, &own.size) < 0)
        return NB_PEER_ELSEWHERE;
    int type = type_of(fd);
    if (getpeername(fd, (struct sockaddr *)&peer.address, &peer.size) < 0) {
        bool is_server = type == SOCK_DGRAM && is_local(&own) && !has_children();
        return is_server ? NB_PEER_HERE : NB_PEER_ELSEWHERE;
    }
    if (own.address.ss_family == AF_UNIX)
        return peer_of_unix_socket(fd, &peer);
    nb_port_t port = {port_of(&peer.address), type};
    return same_host(&own.address, &peer.address) && any_file(has_port, &port) ? NB_PEER_HERE
                                                                               : NB_PEER_ELSEWHERE;
}

nb_peer_t nb_peer_of(int fd)
{
    struct stat file;
    if (fstat(fd, &file) < 0)
        return NB_PEER_ELSEWHERE;
    if (S_ISFIFO(file.st_mode))
        return peer_of_pipe(fd, &file);
    return S_ISSOCK(file.st_mode) ? peer_of_socket(fd) : NB_PEER_ELSEWHERE;
}
