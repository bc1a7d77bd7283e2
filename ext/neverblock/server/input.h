/* input.h - the part of a request body that the application gets. Uses ruby.h. Read after: body.h.
 */
#ifndef NB_SERVER_INPUT_H
#define NB_SERVER_INPUT_H

#include "server/body.h"
#include "server/request.h"

/* The rack.input for what has been received. Clears conn->body; the request then has its loan. */
VALUE nb_body_input(nb_conn_t *conn);
/* For a streamed body: what was received since the last call, or nil. */
VALUE nb_body_part(nb_conn_t *conn);
/* Appends everything that was received and not taken. */
void nb_body_copy(const nb_body_t *body, VALUE string);
/* A StringIO of a body that is whole. */
VALUE nb_input_of(VALUE body);
/* The request begins before its body has arrived; or the body need not be waited for any more. */
void nb_input_await(nb_server_t *server, nb_request_t *request);
void nb_input_arrived(nb_server_t *server, nb_request_t *request);
void nb_input_init(void);

#endif
