/* collect.h - collects garbage when the loop is about to sleep. Uses ruby.h.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_COLLECT_H
#define NB_SERVER_COLLECT_H

#include "server/server.h"

/* From now on, each time the loop is about to sleep, Core#collect is called with the number of
 * running requests, if Ruby demands a full collection or the last call returned true. Needs Ruby
 * 3.4. */
void nb_server_collect_at_rest(nb_server_t *server);

#endif
