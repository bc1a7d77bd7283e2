/* portable.h - calls that only Linux has, and their equivalents elsewhere. Pure C.
 *
 * Built with NB_PORTABLE=1, the extension uses the equivalents on Linux, too, so that they can be
 * tested there.
 */
#ifndef NB_PORTABLE_H
#define NB_PORTABLE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sendfile.h>
#endif

/* Where a call cannot be told to raise no SIGPIPE, Ruby's own handler takes the signal. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* accept(2) that returns a non-blocking socket which programs started later do not inherit. */
static inline int nb_accept(int listener, struct sockaddr *peer, socklen_t *size)
{
#ifdef __linux__
    return accept4(listener, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
    int fd = accept(listener, peer, size);
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return fd;
#endif
}

/* Gives the file of fd another number, which programs started later do not inherit. */
static inline void nb_replace_fd(int file, int fd)
{
#ifdef __linux__
    dup3(file, fd, O_CLOEXEC);
#else
    if (dup2(file, fd) >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
}

/* How many sent bytes the other end of a TCP connection has not acknowledged; 0 if the system does
 * not say. */
static inline int nb_unacknowledged_bytes(int fd)
{
    int count = 0;
#if defined(SO_NWRITE) /* macOS */
    socklen_t size = sizeof(count);
    getsockopt(fd, SOL_SOCKET, SO_NWRITE, &count, &size);
#elif defined(FIONWRITE) /* the BSDs */
    ioctl(fd, FIONWRITE, &count);
#elif defined(TIOCOUTQ)  /* SIOCOUTQ of tcp(7), where sys/ioctl.h has it */
    ioctl(fd, TIOCOUTQ, &count);
#endif
    return count;
}

/* sendfile(2) of at most size bytes from *at, which advances by the bytes sent. Returns bytes, 0 at
 * the end of the file, or -1 with errno. */
static inline ssize_t nb_send_file(int socket, int file, off_t *at, size_t size)
{
#ifdef __linux__
    return sendfile(socket, file, at, size);
#else
    char bytes[65536];
    ssize_t got = pread(file, bytes, size < sizeof(bytes) ? size : sizeof(bytes), *at);
    ssize_t sent = got > 0 ? send(socket, bytes, (size_t)got, MSG_NOSIGNAL) : got;
    if (sent > 0)
        *at += sent;
    return sent;
#endif
}

#endif
