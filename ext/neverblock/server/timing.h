/* timing.h - how long requests waited and took, in histograms of fixed buckets. Uses ruby.h.
 *
 * Read after: server.h, request.h.
 */
#ifndef NB_SERVER_TIMING_H
#define NB_SERVER_TIMING_H

#include "server/request.h"

/* If a proxy says when it got the request (X-Request-Start), the wait counts from then. */
void nb_timing_proxied(nb_request_t *request, const char *bytes, size_t size);
/* The request is over; broken: by an exception. */
void nb_timing_note(nb_server_t *server, const nb_request_t *request, bool broken);
/* NB::Server::Core::BOUNDS and #histograms. */
void nb_timing_init(void);

#endif
