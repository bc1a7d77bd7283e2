/* stats.h - what a server reports about itself. Uses ruby.h. Read after: server.h. */
#ifndef NB_SERVER_STATS_H
#define NB_SERVER_STATS_H

#include "server/server.h"

/* NB::Server::Core#stats and #running. */
void nb_stats_init(void);

#endif
