/* forked.h - a server in a forked child. Uses ruby.h. Read after: server.h. */
#ifndef NB_SERVER_FORKED_H
#define NB_SERVER_FORKED_H

#include "server/server.h"

/* Makes the server release the parent's connections in a forked child; see forked.c. */
void nb_server_watch_forks(nb_server_t *server);

#endif
