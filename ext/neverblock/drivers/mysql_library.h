/* mysql_library.h - the MySQL client library that mysql2 has loaded into this process. Pure C.
 *
 * We are not linked against it: its functions are looked up through mysql2's own shared object, and
 * the parts of its structs that we read are repeated here. Both follow MariaDB Connector/C 3.1 to
 * 3.4 (include/mysql.h, include/ma_pvio.h; the order of these fields has not changed since 3.0).
 */
#ifndef NB_MYSQL_LIBRARY_H
#define NB_MYSQL_LIBRARY_H

#include "base/clock.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct nb_mysql nb_mysql_t;

typedef struct { /* struct st_ma_pvio_tls */
    void *data, *socket;
    void *ssl; /* SSL* */
} nb_mysql_tls_t;

typedef struct { /* struct st_ma_pvio: one connection's socket */
    void *data;
    unsigned char *cache, *cache_position;
    size_t cache_size;
    int type, timeouts[3], ssl_type;
    nb_mysql_tls_t *tls; /* NULL: not encrypted */
    nb_mysql_t *mysql;
} nb_mysql_socket_t;

struct nb_mysql {              /* struct st_mysql */
    nb_mysql_socket_t *socket; /* its first member is NET, whose first member this is; NULL: not
                                * connected */
};

/* The library calls it instead of poll(2). Returns > 0: ready; 0 with ETIMEDOUT; -1 with errno. */
typedef int (*nb_mysql_io_wait_t)(int fd, char is_read, int timeout);

/* The library calls it after it has read (mode 0) or written (1). */
typedef void (*nb_mysql_trace_t)(int mode, nb_mysql_t *mysql, const unsigned char *buffer,
                                 size_t length);

/* Finds the functions through the shared object at path, which is already loaded. Returns NULL, or
 * why this library does not work. */
const char *nb_mysql_library_open(const char *path);

/* "10.11.19"; NULL if not even that is known. */
const char *nb_mysql_library_version(void);

/* Makes the library call io_wait for this connection from now on. Returns 0 on success. */
int nb_mysql_set_io_wait(nb_mysql_t *mysql, nb_mysql_io_wait_t io_wait);

/* Calls trace for every read and write of the process. Returns false if this library cannot do
 * that, or handles TLS in a way that we do not know. */
bool nb_mysql_set_trace(nb_mysql_trace_t trace);

/* The fd, or -1. */
int nb_mysql_fd(nb_mysql_t *mysql);

/* Whether the server has more to send for the last query. */
bool nb_mysql_more_results(nb_mysql_t *mysql);

/* Whether a transaction is open, according to the last answer. False if every statement is in one
 * anyway (autocommit=0). */
bool nb_mysql_in_transaction(nb_mysql_t *mysql);

/* Whether the connection is encrypted, or about to be. */
static inline bool nb_mysql_is_tls(const nb_mysql_t *mysql)
{
    return mysql->socket && mysql->socket->mysql == mysql && mysql->socket->tls &&
           mysql->socket->tls->ssl;
}

/* For an encrypted connection: whether it waits to write rather than to read. */
bool nb_mysql_tls_wants_write(const nb_mysql_t *mysql);

/* When a wait ends that begins now and has this timeout of the library's: milliseconds, or seconds
 * with TLS, where it forgets to convert them; 0 or less: never. */
static inline uint64_t nb_mysql_deadline(uint64_t now_ns, int timeout, bool is_tls)
{
    if (timeout <= 0)
        return NB_NEVER;
    return now_ns + (uint64_t)timeout * (is_tls ? NB_NS_PER_S : NB_NS_PER_S / 1000);
}

#endif
