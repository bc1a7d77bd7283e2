/* exchange.h - the application's access to its connection: NB::Server::Exchange. Uses ruby.h.
 *
 * Read after: request.h.
 */
#ifndef NB_SERVER_EXCHANGE_H
#define NB_SERVER_EXCHANGE_H

#include "server/request.h"

extern VALUE rb_cNBServerExchange;

VALUE nb_exchange_new(nb_request_t *request);
/* Raises if it has ended, its socket was hijacked or its client is gone. */
nb_request_t *nb_exchange_request(VALUE exchange);
/* Whether its client is gone, so that nothing can be sent any more. */
bool nb_exchange_is_lost(VALUE exchange);
void nb_exchange_end(VALUE exchange);
/* Whether the request belongs to another thread: then nb_exchange_in_loop calls its method. */
bool nb_exchange_is_elsewhere(const nb_request_t *request);
/* Waits until the loop's thread has called the method. argument: or Qundef. */
VALUE nb_exchange_in_loop(VALUE exchange, const nb_request_t *request, const char *name,
                          VALUE argument);
void nb_exchange_init(VALUE server_module);

#endif
