/* refusal.h - the server's own answers that end a connection. Uses ruby.h.
 *
 * Read after: connection.h, reader.h.
 */
#ifndef NB_SERVER_REFUSAL_H
#define NB_SERVER_REFUSAL_H

#include "server/reader.h"

/* Answers with an error without calling the application, then closes. incoming: from the reader, or
 * NULL.
 */
void nb_conn_refuse(nb_conn_t *conn, int status, const char *text, const nb_incoming_t *incoming);
/* Writes refused requests to the access log that are not in it yet. */
void nb_refusals_free(nb_server_t *server);

#endif
