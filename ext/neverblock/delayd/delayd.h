/* delayd.h - an HTTP server that answers every request after a delay. Pure C.
 *
 * One epoll loop on one thread. It plays the slow service of an experiment, so its own cost must
 * not show: no allocation for a request that arrives in one piece, one recv and one send for each
 * request, all buffers bounded.
 *
 * Requests of one connection are answered one after another, as HTTP/1.1 asks; the delay of a
 * pipelined request begins when those before it have been answered.
 *
 * Read after: delayd_request.h, loop/timers.h.
 */
#ifndef NB_DELAYD_H
#define NB_DELAYD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "delayd/delayd_request.h"
#include "loop/timers.h"

#define NB_DELAYD_IN_BYTES 16384        /* per read; a connection keeps at most as much unread */
#define NB_DELAYD_OUT_BYTES 65536       /* gathered per send; at most as much is kept unsent */
#define NB_DELAYD_PATTERN_BYTES 65536   /* "done" over and over: every body is sent from it */
#define NB_DELAYD_PAUSE_NS 100000000ull /* before accepting again when out of descriptors */

typedef struct {
    const char *bind;    /* address or name to listen on */
    uint16_t port;       /* 0 = the kernel chooses */
    uint64_t delay_ns;   /* if the target has no ms= */
    uint64_t body_bytes; /* if the target has no bytes= */
    bool close;          /* close after every answer, whatever the client asks for */
    bool shared;         /* SO_REUSEPORT: other delay servers listen on the same port */
} nb_delayd_options_t;

/* Only the serving thread writes these; other threads may read them meanwhile. */
typedef struct {
    uint64_t accepted, open, answered, refused;
} nb_delayd_stats_t;

typedef struct nb_delayd {
    nb_delayd_options_t options;
    int listener, epoll, wake;
    uint16_t port; /* on which it listens */
    bool stopping; /* set from any thread */
    nb_timer_t accept_timer;
    nb_timers_t timers;
    nb_list_t open;  /* every connection */
    nb_list_t eager; /* those that want another turn before the next wait */
    nb_delayd_stats_t stats;
    char *in, *out, *pattern;
    size_t out_bytes; /* gathered in `out` for the connection whose turn it is */
} nb_delayd_t;

/* Listens at once, so that the port is known, and connections queue before the loop runs.
 * Returns 0, or -errno with everything released (-EADDRNOTAVAIL for an unknown name). */
int nb_delayd_open(nb_delayd_t *server, const nb_delayd_options_t *options);

/* Serves until it is told to stop. Returns 0 after nb_delayd_stop, -EINTR after nb_delayd_interrupt
 * (call it again to continue), and another -errno if a system call fails for good. */
int nb_delayd_run(nb_delayd_t *server);

/* Both may be called by any thread between open and close, and by a signal handler. */
void nb_delayd_stop(nb_delayd_t *server);
void nb_delayd_interrupt(nb_delayd_t *server);

/* Closes every connection. Do not call it while the server runs; it is safe to call twice. */
void nb_delayd_close(nb_delayd_t *server);

static inline void nb_delayd_count(uint64_t *counter, int64_t by)
{
    __atomic_store_n(counter, *counter + (uint64_t)by, __ATOMIC_RELAXED);
}

#endif
