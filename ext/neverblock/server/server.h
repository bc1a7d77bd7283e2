/* server.h - the nouns of the server: server, connection, incoming request, output. Ruby.
 *
 * A connection is a C struct with a watch and a timer; it costs no fiber and no Ruby object until a
 * request is complete. Then a worker (a pooled fiber) builds the env, calls the application and
 * writes the answer. What the socket does not take at once stays with the connection, and the
 * worker goes on to the next request.
 *
 *   IDLE ──bytes──▶ HEAD ──head──▶ BODY ──complete──▶ RUN ──answer──▶ WRITE ──sent──▶ IDLE
 *     └────────────────whole request in one read────────▲      └──all sent at once──────▲
 *
 * Read after: http/head.h, loop/wait.h. Used by: every file of this room.
 */
#ifndef NB_SERVER_H
#define NB_SERVER_H

#include <ruby.h> /* first: it asks the C library for everything it has */
#include "base/buffer.h"
#include "base/list.h"
#include "http/chunked.h"
#include "http/head.h"
#include "http/status.h"
#include "loop/loop.h"
#include "loop/wait.h"
#include <netinet/in.h>
#include <sys/un.h>

#define NB_SCRATCH_BYTES 65536

typedef struct nb_server nb_server_t;
typedef struct nb_conn nb_conn_t;
typedef struct nb_env_cache nb_env_cache_t;

/* --- options: set before start, from NB::Server::Core#configure ---------------------------- */

typedef struct {
    nb_head_limits_t head;
    uint64_t body_max_bytes;      /* beyond it 413 */
    uint64_t body_memory_bytes;   /* beyond it a temporary file, */
    uint64_t bodies_memory_bytes; /* unless all that are beyond it fit in here */
    uint64_t header_timeout_ns, body_timeout_ns, idle_timeout_ns, write_timeout_ns,
        request_timeout_ns, queue_timeout_ns; /* NB_NEVER: none */
    size_t fibers;                            /* workers at most */
    size_t queue;                             /* connections waiting for a worker; beyond it 503 */
    size_t connections;                       /* open at most; beyond it nothing is accepted */
    uint64_t requests_per_connection;
    bool cancel_when_gone; /* a client that hangs up cancels its request */
    bool early_hints;
    bool shared;         /* other processes accept on the same listeners */
    bool body_streaming; /* large bodies are read by the application while they arrive */
    bool log;            /* one call of #log_access per request */
} nb_server_options_t;

/* What could not be written at once, in this order: bytes, strings, file. */
typedef struct {
    nb_list_t link; /* server->outputs: whose strings the server marks */
    nb_buffer_t bytes;
    size_t bytes_at;
    VALUE strings; /* Array of frozen Strings, or 0 */
    long index;    /* the string being written */
    size_t offset; /* how much of it is gone */
    int file;      /* -1: none */
    off_t file_at;
    uint64_t file_left;
} nb_output_t;

/* A request body that did not come with its head. */
typedef struct {
    nb_buffer_t memory;
    int spool; /* unlinked file, once memory is not enough; else -1 */
    uint64_t received, expected;
    uint64_t borrowed; /* of the server's bodies_bytes */
    nb_chunked_t chunked;
    bool is_chunked, complete;
    bool streamed; /* memory holds only what the application has not taken yet */
    bool held;     /* the client waits for "100 Continue" */
} nb_body_t;

/* A head that did not come in one read. */
typedef struct {
    nb_head_t head;
    nb_field_t *fields;
    uint32_t capacity;
} nb_partial_t;

/* --- a connection --------------------------------------------------------------------------- */

typedef enum {
    NB_CONN_IDLE,   /* between requests */
    NB_CONN_HEAD,   /* part of a head is here */
    NB_CONN_BODY,   /* the head is here, the body not yet */
    NB_CONN_RUN,    /* a worker has it */
    NB_CONN_WRITE,  /* the answer is complete, not all of it is written; no worker */
    NB_CONN_LINGER, /* refused; what still comes is thrown away so that the answer arrives */
    NB_CONN_CLOSED  /* no fd any more; the worker that has it frees it */
} nb_conn_state_t;

struct nb_conn {
    nb_watch_t watch;
    nb_timer_t timer;
    nb_server_t *server;
    nb_list_t link;       /* server->connections */
    nb_list_t queue;      /* server->runnable, while it waits for a worker */
    nb_list_t dirty;      /* server->dirty, while bytes wait for the end of the tick */
    uint64_t deadline_ns; /* what the timer means; the timer itself may be set earlier */
    int unacknowledged;   /* bytes that the client had not taken when the deadline was set */
    uint64_t since_ns;    /* when it came into the queue, or the first byte of the request */
    uint64_t requests;
    struct nb_request *request; /* on the worker's stack, in RUN */
    nb_list_t waiters;          /* fibers that wait for this socket: body or drain */
    nb_partial_t *partial;
    nb_body_t *body;
    nb_output_t *output;
    nb_buffer_t in; /* bytes not used yet: part of a head, or the next requests */
    uint8_t state;
    bool readable; /* an event said so and no read has come up short since */
    bool ended;    /* an event told that the client has closed its side */
    bool hung_up;  /* and a read has come to that end */
    bool writable; /* false after EAGAIN */
    bool keep;     /* keep alive after the present answer */
    bool local;    /* UNIX socket */
    bool https;
    uint8_t family; /* of peer: AF_INET, AF_INET6 or 0 */
    uint16_t port;  /* the listener's */
    unsigned char peer[16];
};

/* One request that a worker runs. It lies on the worker's stack. */
typedef struct nb_request {
    nb_conn_t *conn; /* NULL after a full hijack */
    VALUE env, exchange, fiber, input_file;
    VALUE input; /* LazyInput or StreamedInput, or 0 */
    VALUE headers, body;
    nb_buffer_t head; /* the response head being built */
    uint64_t started_ns, queued_ns;
    uint64_t sent_bytes;
    int status;
    int refused_body; /* the status for a body that could not be taken */
    uint8_t minor;
    bool head_request, head_sent, chunked, raw, bodiless, hijacked, timed_out, gone, complete;
    bool has_length;
    uint64_t length_left;
    nb_list_t link; /* server->running */
} nb_request_t;

/* A complete request as the reader found it; valid until the next read of any connection. */
typedef struct {
    const char *bytes;
    const nb_head_t *head;
    const nb_field_t *fields;
    const char *body; /* in memory, body_size bytes; NULL when there is none or it is in a file */
    size_t body_size;
    size_t used;       /* bytes to take off conn->in, or out of scratch */
    size_t in_scratch; /* how many bytes scratch holds; 0: everything is in conn->in */
    bool body_later;   /* the application's reads fetch it */
} nb_incoming_t;

/* --- workers, listeners, the server ---------------------------------------------------------- */

typedef struct nb_worker {
    nb_list_t link; /* server->idle, last in first out */
    nb_park_t *park;
    nb_server_t *server;
} nb_worker_t;

typedef struct nb_listener {
    nb_watch_t watch;
    nb_list_t link;
    nb_server_t *server;
    uint16_t port;
    bool local, https, readable;
} nb_listener_t;

typedef struct {
    uint64_t accepted, requests, responses_4xx, responses_5xx, refused, rejected_503, timeouts,
        resets, request_bytes, response_bytes, queue_ns_max, errors;
} nb_server_counters_t;

struct nb_server {
    uint64_t bodies_bytes; /* memory of bodies beyond what each may have */
    VALUE self, app, env_template;
    nb_loop_t *loop;
    nb_server_options_t options;
    nb_list_t listeners, connections, runnable, idle, dirty, running, outputs;
    size_t connection_count, runnable_count, worker_count, running_count;
    bool waking; /* a worker was woken and has not run yet */
    bool accepting, draining, started;
    nb_park_t *joiner; /* who waits for the end of the draining */
    nb_hook_t flush_hook, kick_hook;
    nb_timer_t accept_timer; /* while it runs nothing is accepted */
    nb_head_t head;          /* of the request being read, when it comes in one piece */
    nb_field_t *fields;      /* options.head.field_count of them */
    nb_env_cache_t *cache;
    nb_buffer_t head_out; /* the response head being built */
    time_t date_second;
    char date[40];
    nb_server_counters_t counters;
    char scratch[NB_SCRATCH_BYTES];
};

extern VALUE rb_mNBServer, rb_cNBServerCore, rb_cNBServerExchange;
extern const rb_data_type_t nb_server_type;

/* --- connection.c ---------------------------------------------------------------------------- */

/* Takes over fd (non-blocking). Closes it when there is no memory. */
nb_conn_t *nb_conn_open(nb_server_t *server, int fd, const nb_listener_t *listener,
                        const struct sockaddr *peer);
/* The answer is complete: next request, or writes the rest, or closes. */
void nb_conn_finish(nb_conn_t *conn);
/* Answers an error without the application and closes after it. */
void nb_conn_refuse(nb_conn_t *conn, int status, const char *text);
void nb_conn_close(nb_conn_t *conn);
/* Frees a closed one that no worker has. */
void nb_conn_free(nb_conn_t *conn);
/* Takes the socket away from the server, for a hijack. The caller owns the fd. */
int nb_conn_detach(nb_conn_t *conn);
void nb_conn_enqueue(nb_conn_t *conn);
void nb_conn_deadline(nb_conn_t *conn, uint64_t after_ns);
/* The calling fiber waits for an event of this connection, at most so long. Returns false when the
 * connection is closed or the request has ended: then conn and request must not be touched. */
bool nb_conn_wait(nb_conn_t *conn, uint64_t timeout_ns);
/* The request ends: whoever still waits for its socket is told so. */
void nb_conn_dismiss(nb_conn_t *conn);

/* --- reader.c -------------------------------------------------------------------------------- */

typedef enum { NB_ADVANCE_WAIT, NB_ADVANCE_REQUEST, NB_ADVANCE_GONE } nb_advance_t;

/* Reads until a request is complete, nothing more comes, or it is refused. Called by a worker. */
nb_advance_t nb_reader_advance(nb_conn_t *conn, nb_incoming_t *incoming);
/* The request is in the env now: drops its bytes, keeps those of the next. */
void nb_reader_consume(nb_conn_t *conn, const nb_incoming_t *incoming);
/* Reads once into scratch. Returns bytes, 0 for nothing now, -1 for the end or an error. */
ssize_t nb_reader_receive(nb_conn_t *conn);

/* --- output.c -------------------------------------------------------------------------------- */

struct iovec;
/* Writes what it can now, keeps the rest. owners[i] is the String behind iov[i], or 0 for bytes
 * that are copied when they must wait. Returns 0, or -1 when the connection is closed now. */
int nb_output_write(nb_conn_t *conn, struct iovec *iov, const VALUE *owners, int count);
/* Takes over file. */
int nb_output_file(nb_conn_t *conn, int file, off_t at, uint64_t size);
/* Collects bytes until the end of the tick or 64 KB. */
int nb_output_collect(nb_conn_t *conn, const char *bytes, size_t size);
/* Writes what waits. Returns 0, or -1 when the connection is closed now. */
int nb_output_flush(nb_conn_t *conn);
bool nb_output_empty(const nb_conn_t *conn);
size_t nb_output_size(const nb_conn_t *conn);
void nb_output_free(nb_conn_t *conn);
/* Sets the deadline by which the client shall have taken a byte of what waits. */
void nb_output_expect(nb_conn_t *conn);
/* At that deadline: whether it has taken one. Then there is a new deadline. */
bool nb_output_moves(nb_conn_t *conn);
/* The worker waits until everything is written. Raises Errno::EPIPE when the client is gone. */
void nb_output_drain(nb_conn_t *conn);
void nb_output_flush_all(nb_hook_t *hook);

/* --- env.c, input.c, response.c, exchange.c, worker.c, listener.c ------------------------------
 */

void nb_env_init(VALUE server_module);
nb_env_cache_t *nb_env_cache_new(void);
void nb_env_mark(const nb_env_cache_t *cache);
VALUE nb_env_build(nb_server_t *server, nb_request_t *request, const nb_incoming_t *incoming);

int nb_body_start(nb_conn_t *conn, const nb_head_t *head);
/* Takes bytes of the body. Returns how many it used, or a negative HTTP status. */
ssize_t nb_body_feed(nb_conn_t *conn, const char *bytes, size_t size);
void nb_body_free(nb_conn_t *conn);
/* Whether bytes of the request's body are still to come. */
bool nb_body_missing(const nb_conn_t *conn);
/* The rack.input for what has been received; clears conn->body. */
VALUE nb_body_input(nb_conn_t *conn);
/* A streamed body: what was received since the last call. */
VALUE nb_body_part(nb_conn_t *conn);
VALUE nb_input_of(const char *bytes, size_t size);
void nb_input_init(VALUE server_module);

void nb_response_send(nb_request_t *request, VALUE triple);
void nb_response_discard(VALUE triple);
void nb_response_error(nb_request_t *request, int status, const char *text);
void nb_response_write(nb_request_t *request, VALUE string);
void nb_response_end(nb_request_t *request);
void nb_response_early_hints(nb_request_t *request, VALUE headers);
void nb_response_init(VALUE server_module);
const char *nb_server_date(nb_server_t *server);

VALUE nb_exchange_new(nb_request_t *request);
void nb_exchange_end(VALUE exchange);
void nb_exchange_init(VALUE server_module);

/* Wakes or makes one worker, if connections wait and none is on its way. */
void nb_worker_kick(nb_server_t *server);
void nb_worker_kick_now(nb_hook_t *hook);

/* Runs a complete request: env, application, answer. Raises only what ends more than the request.
 */
void nb_request_run(nb_server_t *server, nb_conn_t *conn, const nb_incoming_t *incoming);
/* Makes the fiber like new for the next request: no locals, no storage, no marks of frameworks. */
void nb_request_wipe_fiber(nb_server_t *server);
void nb_request_init(VALUE server_module);
/* nb_park in the form that rb_protect wants. */
VALUE nb_park_value(VALUE park);

int nb_listener_add(nb_server_t *server, int fd, bool local, bool https, uint16_t port);
void nb_listener_resume(nb_server_t *server);
void nb_listener_accept_rest(nb_server_t *server);
void nb_listener_close_all(nb_server_t *server);

/* Whether everything is over, for the joiner. */
void nb_server_check_drained(nb_server_t *server);

void Init_nb_server(VALUE mNB);

#endif
