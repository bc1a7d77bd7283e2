/* mysql_library.c - the MySQL client library of this process. Pure C. Read after: mysql_library.h.
 */
#include "drivers/mysql_library.h"
#include <dlfcn.h>

#define MARIADB_OPT_IO_WAIT 7024            /* enum mysql_option; the numbers are part of its ABI */
#define MARIADB_CONNECTION_SERVER_STATUS 30 /* enum mariadb_value; likewise */
#define IN_TRANSACTION 1 /* SERVER_STATUS_IN_TRANS, _AUTOCOMMIT: the protocol's */
#define AUTOCOMMIT 2
#define SSL_WRITING 2 /* SSL_want(3) */

static struct {
    int (*optionsv)(nb_mysql_t *, int option, ...);
    int (*get_socket)(nb_mysql_t *);
    char (*more_results)(nb_mysql_t *);
    const char *(*get_client_info)(void);
    int (*register_callback)(char add, nb_mysql_trace_t);
    int (*ssl_want)(const void *ssl);
    char (*get_infov)(nb_mysql_t *, int value, void *argument, ...);
} library;

const char *nb_mysql_library_open(const char *path)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return "its shared object cannot be found";
    /* dlsym also searches what the object was linked against. */
    *(void **)&library.get_client_info = dlsym(handle, "mysql_get_client_info");
    *(void **)&library.optionsv = dlsym(handle, "mysql_optionsv");
    *(void **)&library.get_socket = dlsym(handle, "mysql_get_socket");
    *(void **)&library.more_results = dlsym(handle, "mysql_more_results");
    *(void **)&library.register_callback = dlsym(handle, "ma_pvio_register_callback");
    *(void **)&library.ssl_want = dlsym(handle, "SSL_want");
    *(void **)&library.get_infov = dlsym(handle, "mariadb_get_infov");
    dlclose(handle);
    if (!library.optionsv || !library.get_socket || !library.more_results)
        return "its client library is not MariaDB Connector/C 3.1 or later";
    return NULL;
}

const char *nb_mysql_library_version(void)
{
    return library.get_client_info ? library.get_client_info() : NULL;
}

int nb_mysql_set_io_wait(nb_mysql_t *mysql, nb_mysql_io_wait_t io_wait)
{
    return library.optionsv(mysql, MARIADB_OPT_IO_WAIT, (void *)io_wait);
}

bool nb_mysql_set_trace(nb_mysql_trace_t trace)
{
    return library.register_callback && library.ssl_want &&
           library.register_callback(1, trace) == 0;
}

int nb_mysql_fd(nb_mysql_t *mysql)
{
    return mysql->socket ? library.get_socket(mysql) : -1;
}

bool nb_mysql_more_results(nb_mysql_t *mysql)
{
    return library.more_results(mysql);
}

bool nb_mysql_in_transaction(nb_mysql_t *mysql)
{
    unsigned status = 0;
    if (!mysql->socket || !library.get_infov ||
        library.get_infov(mysql, MARIADB_CONNECTION_SERVER_STATUS, &status))
        return false;
    return (status & IN_TRANSACTION) && (status & AUTOCOMMIT);
}

bool nb_mysql_tls_wants_write(const nb_mysql_t *mysql)
{
    return library.ssl_want && library.ssl_want(mysql->socket->tls->ssl) == SSL_WRITING;
}
