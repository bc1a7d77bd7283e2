/* peer.c - whether the other end of a file is in this process. Pure C. Read after: peer.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "loop/peer.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

static nb_peer_t peer_of_unix_socket(int fd)
{
#ifdef __linux__
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid() &&
        !has_children())
        return NB_PEER_HERE;
#endif
    (void)fd;
    return NB_PEER_ELSEWHERE;
}

/* 0 for what has no port. */
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

/* Also a listening socket, from which nobody has accepted the connection yet. */
static bool has_port(int fd, const void *port)
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    return getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
           port_of(&own) == *(const in_port_t *)port;
}

static nb_peer_t peer_of_socket(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer), size = sizeof(int);
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
        return NB_PEER_NONE;
    if (getsockname(fd, (struct sockaddr *)&own, &own_size) < 0)
        return NB_PEER_ELSEWHERE;
    if (own.ss_family == AF_UNIX)
        return peer_of_unix_socket(fd);
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0 || !same_host(&own, &peer))
        return NB_PEER_ELSEWHERE;
    in_port_t port = port_of(&peer);
    return any_file(has_port, &port) ? NB_PEER_HERE : NB_PEER_ELSEWHERE;
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
