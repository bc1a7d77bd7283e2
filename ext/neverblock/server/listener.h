/* listener.h - accepting connections. Uses ruby.h.
 *
 * Read after: server.h. Used by: worker.c, core.c. */
#ifndef NB_SERVER_LISTENER_H
#define NB_SERVER_LISTENER_H

#include "server/server.h"

int nb_listener_add(nb_server_t *server, int fd, bool local, bool https, uint16_t port);
void nb_listener_resume(nb_server_t *server);
/* Takes in all whom the kernel has let in: closing the listeners would reset them. Returns false
 * when fds or memory are short: more may come with another call. */
bool nb_listener_accept_rest(nb_server_t *server);
void nb_listener_close_all(nb_server_t *server);

#endif
