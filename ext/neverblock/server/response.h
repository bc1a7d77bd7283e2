/* response.h - from the application's triple to bytes. Uses ruby.h. Read after: request.h. */
#ifndef NB_SERVER_RESPONSE_H
#define NB_SERVER_RESPONSE_H

#include "server/request.h"

void nb_response_send(nb_request_t *request, VALUE triple);
/* Closes a body that nobody gets. */
void nb_response_discard(VALUE triple);
/* Returns whether no byte of the response is sent. A head that was only collected is gone then. */
bool nb_response_take_back(nb_request_t *request);
/* An answer of our own, if none has begun. */
void nb_response_error(nb_request_t *request, int status, const char *text);
void nb_response_init(void);

#endif
