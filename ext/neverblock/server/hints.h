/* hints.h - "103 Early Hints", before a response. Uses ruby.h.
 *
 * Read after: response_head.h.
 */
#ifndef NB_SERVER_HINTS_H
#define NB_SERVER_HINTS_H

#include <ruby.h>

/* Sends them, unless the response has begun. */
void nb_hints_send(VALUE exchange, VALUE headers);

#endif
