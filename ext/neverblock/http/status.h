/* status.h - the words behind a status, RFC 9110 15. Pure C. */
#ifndef NB_HTTP_STATUS_H
#define NB_HTTP_STATUS_H

#include <stdbool.h>

/* Returns "Unknown" for a status that is not registered. */
const char *nb_status_text(int status);
/* Whether a response with this status never has a body (RFC 9112 6.3). */
bool nb_status_forbids_body(int status);

#endif
