/* delayd_request.h - reads as much of an HTTP/1.x request head as a delay server needs. Pure C:
 * bytes in, numbers out, no allocation, nothing kept.
 */
#ifndef NB_DELAYD_REQUEST_H
#define NB_DELAYD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NB_DELAYD_HEAD_BYTES_MAX 8192
#define NB_DELAYD_DELAY_MS_MAX 86400000ULL           /* a day */
#define NB_DELAYD_BODY_BYTES_MAX 1000000000000ULL    /* 1 TB; made while it is sent */
#define NB_DELAYD_CONTENT_BYTES_MAX 1000000000000ULL /* of a request; it is read and dropped */

typedef struct {
    uint64_t delay_ns;      /* in: the default; out: ?ms=, if the target has it */
    uint64_t body_bytes;    /* in: the default; out: ?bytes=, if the target has it */
    uint64_t content_bytes; /* of the request's own body, which follows the head */
    bool keep_alive;
    bool http10;
    bool head_only;      /* the method is HEAD */
    const char *problem; /* why it was refused; a constant string */
} nb_delayd_request_t;

/* Reads one head from the front of count bytes.
 * request - holds the defaults for delay_ns and body_bytes; meaningful once a length is returned
 *
 * Returns the length of the head (more than 0); 0 while it is incomplete but valid so far;
 * -EBADMSG, with request->problem set, once it can no longer become valid. */
ssize_t nb_delayd_request_parse(nb_delayd_request_t *request, const char *bytes, size_t count);

#endif
