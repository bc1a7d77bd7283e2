/* env.h - the Rack env of one request. Uses ruby.h.
 *
 * Read after: request.h.
 */
#ifndef NB_SERVER_ENV_H
#define NB_SERVER_ENV_H

#include "server/request.h"

void nb_env_init(void);
nb_env_cache_t *nb_env_cache_new(void);
void nb_env_mark(const nb_env_cache_t *cache);
/* A key that nb_env_build uses, kept forever. */
VALUE nb_env_key(const char *text);
/* Runs no Ruby code, because that may wait, and then another request takes the place of incoming's
 * bytes. */
VALUE nb_env_build(nb_server_t *server, nb_request_t *request, const nb_incoming_t *incoming);
/* The rest of it, once these bytes are consumed: StringIO.new may be the program's. */
void nb_env_set_input(nb_request_t *request, const nb_incoming_t *incoming);

#endif
