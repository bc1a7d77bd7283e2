/* portable.h - calls that only Linux has, and what does the same elsewhere. Pure C.
 *
 * Built with NB_PORTABLE=1, the extension takes the ways of the others on Linux, too, so that they
 * can be tested there. Used by: listener.c, output.c, refusal.c, hooks/io.c.
 */
#ifndef NB_PORTABLE_H
#define NB_PORTABLE_H

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sendfile.h>
#endif

/* Where a call cannot be told to raise no SIGPIPE, Ruby's own handler takes it. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* accept(2) of a socket that does not block and that a program started later does not inherit. */
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

/* sendfile(2) of at most size bytes from *at, which moves by what was sent. Returns bytes, 0 at the
 * end of the file, or -1 with errno. */
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
