/* start.h - X-Request-Start: when a proxy got the request. Pure C. */
#ifndef NB_HTTP_START_H
#define NB_HTTP_START_H

#include <stddef.h>
#include <stdint.h>

/* nginx's "t=1234567890.123", HAProxy's and Heroku's milliseconds, microseconds, nanoseconds.
 * Returns nanoseconds since 1970, or 0 for anything else. */
uint64_t nb_start_parse(const char *bytes, size_t size);

#endif
