/* peer.h - whether the other end of a file is in this process. Pure C. */
#ifndef NB_PEER_H
#define NB_PEER_H

typedef enum {
    NB_PEER_NONE,      /* a listening socket: anybody may connect */
    NB_PEER_WAKER,     /* no file: a fiber or thread of this process wakes the fiber */
    NB_PEER_HERE,      /* or datagrams from anywhere on this machine */
    NB_PEER_ELSEWHERE, /* or unknown */
} nb_peer_t;

/* Looks at each open file of the process, so it is slow: about 1 us per file. */
nb_peer_t nb_peer_of(int fd);

#endif
