/* options.h - the settings of a server, from NB::Server::Core#configure. Uses ruby.h.
 *
 * Read after: http/head.h.
 */
#ifndef NB_SERVER_OPTIONS_H
#define NB_SERVER_OPTIONS_H

#include "http/head.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    nb_head_limits_t head;
    uint64_t body_max_bytes;      /* beyond it 413 */
    uint64_t body_memory_bytes;   /* beyond it a temporary file, */
    uint64_t bodies_memory_bytes; /* unless all such bodies together fit in here */
    uint64_t bodies_file_bytes;   /* all temporary files together; beyond it 503 */
    uint64_t header_timeout_ns, body_timeout_ns, idle_timeout_ns, write_timeout_ns,
        request_timeout_ns, queue_timeout_ns; /* NB_NEVER: none */
    size_t fibers;                            /* workers at most */
    size_t body_fibers;                       /* of them, for requests whose body has not arrived */
    size_t queue;                             /* connections waiting for a worker; beyond it 503 */
    size_t connections;                       /* open at most; beyond it nothing is accepted */
    uint64_t requests_per_connection;
    uint64_t body_bytes_per_second; /* of one body at least, on average; 0: any */
    bool cancel_when_gone;          /* a client that hangs up cancels its request */
    bool early_hints;
    bool proxy_protocol; /* each connection begins with the header of the PROXY protocol */
    bool shared;         /* other processes accept on the same listeners */
    bool body_streaming; /* large bodies are read by the application while they arrive */
    bool log;            /* one call of #log_access per request */
    bool collect;        /* #collect is asked where the loop rests */
} nb_server_options_t;

#endif
