/* refusal.h - answers of our own that end a connection. Uses ruby.h.
 *
 * Read after: connection.h, reader.h.
 * Used by: events.c, worker.c, core.c. */
#ifndef NB_SERVER_REFUSAL_H
#define NB_SERVER_REFUSAL_H

#include "server/reader.h"

/* Answers an error without the application and closes after it. incoming: from the reader, or NULL.
 */
void nb_conn_refuse(nb_conn_t *conn, int status, const char *text, const nb_incoming_t *incoming);
/* Those that the access log has not had yet. */
void nb_refusals_free(nb_server_t *server);

#endif
