/* backend.h - what the loop asks the kernel: which fds are ready. Pure C; never sees a fiber.
 *
 * One table of functions per backend; a backend registers interest, the fd table (loop/fdtable.c)
 * keeps everything else.
 */
#ifndef NB_BACKEND_H
#define NB_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

/* The event bits of Ruby's IO (IO::READABLE, PRIORITY, WRITABLE), and those of our own. */
enum {
    NB_READABLE = 1,
    NB_PRIORITY = 2,
    NB_WRITABLE = 4,
    NB_HANGUP = 8,  /* the peer sends no more; it may well receive */
    NB_CLOSED = 16, /* by ourselves */
    NB_ENDED = 32,  /* both directions, or an error: concerns whoever waits, for whatever */
    NB_ONCE = 64,   /* of a watch: each of its bits is told once, until it is asked for again */
};

typedef struct {
    int fd;
    uint32_t generation; /* as given to watch(): tells an event of a closed fd's old file */
    int mask;
} nb_event_t;

typedef struct nb_backend nb_backend_t;

typedef struct {
    const char *name;
    bool edge; /* true: an event comes once per change; false: as long as the state lasts */
    /* All return 0 or -errno. */
    int (*open)(nb_backend_t *backend);
    void (*close)(nb_backend_t *backend);
    /* Watches fd for mask. Edge: called once per file, watches for everything. Level: called at
     * each change of the union of masks; 0 takes the fd out. -EPERM: the fd cannot be polled (a
     * regular file), so it is always ready. */
    int (*watch)(nb_backend_t *backend, int fd, uint32_t generation, int mask);
    /* Edge only. Asks again for the present state, which the next wait delivers as an event.
     * -ENOENT: the fd is not the file that was registered (it was closed behind our back). */
    int (*verify)(nb_backend_t *backend, int fd, uint32_t generation);
    /* Edge only. Stops events of the fd. */
    void (*forget)(nb_backend_t *backend, int fd);
    /* Waits up to timeout_ns (0: does not wait, negative: forever).
     * Returns the number of events, 0 after a timeout or EINTR, or -errno. Called without the GVL.
     */
    int (*wait)(nb_backend_t *backend, nb_event_t *events, int capacity, int64_t timeout_ns);
    /* For backends whose fd another event loop can watch: the fd becomes readable with every event,
     * and at when_ns (of CLOCK_MONOTONIC; NB_NEVER: not any more). NULL if there is no such fd. */
    int (*alarm)(nb_backend_t *backend, uint64_t when_ns);
    /* Tells the kernel what wait would tell it. NULL if watch has already told it. */
    void (*flush)(nb_backend_t *backend);
} nb_backend_ops_t;

struct nb_backend {
    const nb_backend_ops_t *ops;
    int fd;      /* epoll instance, kqueue, or -1 */
    void *state; /* the backend's own */
};

/* The backends of this build, best first, ended by NULL: backends.c. */
extern const nb_backend_ops_t *const nb_backends[];
extern const nb_backend_ops_t nb_backend_epoll, nb_backend_kqueue, nb_backend_poll;

/* From now on the kernel refuses new connections at this listening TCP socket; those it has
 * accepted can still be taken. Returns 0 or -errno: -ENOTSUP if that is not possible. In
 * refuse.c. */
int nb_refuse_connections(int fd);

/* Portable poll(2) of one fd now. Returns nb_poll_found, or -errno. */
int nb_poll_now(int fd, int mask);

/* What poll(2) has found, as blocking Ruby and select(2) see it: a hangup counts as readable, an
 * error as readable and writable, whatever was asked for. */
int nb_poll_found(short revents);

/* The bits of mask as poll(2) events, and back; POLLNVAL is the caller's to check. */
short nb_poll_events(int mask);
int nb_poll_mask(short revents);

#endif
