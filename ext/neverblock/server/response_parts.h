/* response_parts.h - a response that goes out in parts. Uses ruby.h. Read after: request.h. */
#ifndef NB_SERVER_RESPONSE_PARTS_H
#define NB_SERVER_RESPONSE_PARTS_H

#include "server/request.h"

/* One part, from whoever has the exchange: any fiber, any thread, however late. */
VALUE nb_exchange_write(VALUE exchange, VALUE string);
/* All parts have been given. Raises if they are shorter than promised. */
void nb_response_end(nb_request_t *request);
/* NB::Server::Exchange#write, #flush and #early_hints. */
void nb_response_parts_init(void);

#endif
