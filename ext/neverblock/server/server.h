/* server.h - the server: options, lists of connections and workers, counters. Uses ruby.h.
 *
 * A connection is a C struct with a watch and a timer; it costs no fiber and no Ruby object until a
 * request is complete. Then a worker (a pooled fiber) builds the env, calls the application and
 * writes the answer. What the socket does not take at once stays with the connection, and the
 * worker continues with the next request.
 *
 * This room has an order, which a test enforces; a file uses only those before it:
 *
 *   date · deadline · queue · collect           the Date field; timers; the queue; collections
 *   spool · body · output · reader              bytes in and out: they return verdicts
 *   transport · connection                      TLS in front of a connection; how it ends
 *   refusal · events · listener                 refusing, reacting to events, accepting
 *   input · exchange · timing · env             what the application gets
 *   response_head · hints · response_file · response_parts · response   what it returns
 *   fiber_reset · callbacks                     cleaning the fiber; what runs after a response
 *   request · worker · forked · stats · core    who does the work, and reports on it
 *
 * A connection notifies the files above it through nb_conn_tells_t.
 *
 * Read after: options.h, loop/loop.h.
 */
#ifndef NB_SERVER_H
#define NB_SERVER_H

#include <ruby.h> /* first: it asks the C library for everything it has */
#include "base/buffer.h"
#include "base/list.h"
#include "http/head.h"
#include "loop/loop.h"
#include "server/options.h"

#define NB_SCRATCH_BYTES 65536

typedef struct nb_server nb_server_t;
typedef struct nb_conn nb_conn_t;
typedef struct nb_env_cache nb_env_cache_t;

/* How much memory and disk space large bodies use until their requests have ended. */
typedef struct {
    uint64_t memory_bytes, file_bytes;
} nb_loan_t;

/* How a connection notifies the files above it; core.c sets the functions. */
typedef struct {
    void (*room)(nb_server_t *server);    /* one has ended: another may be accepted */
    void (*runnable)(nb_conn_t *conn);    /* it has something to read, for a worker */
    void (*drained)(nb_server_t *server); /* it, or its request, has ended: perhaps the last */
} nb_conn_tells_t;

typedef struct {
    uint64_t accepted, requests, refused, rejected_503, timeouts, resets, request_bytes,
        response_bytes, queue_ns_max, errors;
    uint64_t responses[10]; /* by the first digit of the status; 0: no answer of ours */
} nb_server_counters_t;

#define NB_TIMING_BOUNDS 16

typedef struct {
    uint64_t counts[NB_TIMING_BOUNDS + 1], sum_ns;
} nb_histogram_t;

/* For timing.c: the time until the application began, in it, and from arrival to the answer's
 * start. */
typedef struct {
    nb_histogram_t queue, application, first_byte;
} nb_timings_t;

struct nb_server {
    nb_loan_t lent; /* to bodies, beyond each one's share */
    int body_errno; /* why a body could last not be stored */
    VALUE self, app, env_template;
    nb_loop_t *loop;
    const nb_conn_tells_t *tells;
    nb_server_options_t options;
    nb_list_t listeners, connections, runnable, idle, dirty, running, outputs, refusals, later;
    size_t connection_count, runnable_count, worker_count, running_count, refusal_count;
    size_t body_count;   /* running requests whose body is still to come */
    uint64_t begun_ns;   /* when a request last began */
    uint64_t crowded_ns; /* until then, the system counts as having no room for more workers */
    bool waking;         /* a worker was woken and has not run yet */
    bool accepting, draining, started;
    bool forked;            /* this is a child of the process that serves */
    struct nb_park *joiner; /* who waits for the end of the draining */
    nb_hook_t flush_hook, kick_hook, fork_hook, rest_hook;
    bool collecting;         /* Core#collect wants to be asked at each rest */
    nb_timer_t later_timer;  /* for connections that have had their turn and can write on */
    nb_timer_t accept_timer; /* while it runs nothing is accepted */
    nb_timer_t queue_timer;  /* when the first in runnable has waited too long */
    nb_head_t head;          /* of the request being read, when it comes in one piece */
    nb_field_t *fields;      /* options.head.field_count of them */
    nb_env_cache_t *cache;
    nb_buffer_t head_out; /* the response head being built */
    time_t date_second;
    char date[40];
    nb_server_counters_t counters;
    nb_timings_t timings;
    char scratch[NB_SCRATCH_BYTES];
};

extern VALUE rb_mNBServer, rb_cNBServerCore;
extern const rb_data_type_t nb_server_type;

void Init_nb_server(VALUE mNB);

#endif
