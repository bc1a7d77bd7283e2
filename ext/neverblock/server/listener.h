/* listener.h - accepting connections. Uses ruby.h.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_LISTENER_H
#define NB_SERVER_LISTENER_H

#include "server/server.h"

int nb_listener_add(nb_server_t *server, int fd, bool local, bool https, uint16_t port);
void nb_listener_resume(nb_server_t *server);
/* Accepts all connections that the kernel has established, so many at most of each listener,
 * because closing the listeners would reset them. Returns false if fds or memory are short: another
 * call may accept more. */
bool nb_listener_accept_rest(nb_server_t *server, size_t most);
void nb_listener_close_all(nb_server_t *server);

#endif
