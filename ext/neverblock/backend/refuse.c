/* refuse.c - a listener at which the kernel lets nobody in. Pure C. Read after: backend.h. */
#include "backend/backend.h"
#include <errno.h>

#ifdef HAVE_LINUX_FILTER_H
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define TCP_FLAGS_AT 13 /* in a TCP header */

/* A SYN that begins a connection is thrown away as if it were lost, and what a handshake that has
 * begun still needs comes through. The client asks again after a second: the next server, or none.
 */
int nb_refuse_connections(int fd)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof(lines) / sizeof(*lines), .filter = lines};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}
#else
int nb_refuse_connections(int fd)
{
    (void)fd;
    return -ENOTSUP;
}
#endif
