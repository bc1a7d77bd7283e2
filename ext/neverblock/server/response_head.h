/* response_head.h - the head of a response while it is built. Uses ruby.h.
 *
 * Read after: request.h.
 */
#ifndef NB_SERVER_RESPONSE_HEAD_H
#define NB_SERVER_RESPONSE_HEAD_H

#include "server/request.h"

#define NB_LENGTH_UNKNOWN UINT64_MAX

/* What the application's header fields said. */
typedef struct {
    nb_request_t *request;
    nb_buffer_t *out;
    VALUE hijack;    /* partial hijack: the value of "rack.hijack" */
    VALUE protocol;  /* the value of "rack.protocol": switch to it */
    uint64_t length; /* content-length, or NB_LENGTH_UNKNOWN */
    bool date;       /* it has one */
    bool coded;      /* transfer-encoding: it frames the body itself */
    bool upgrade;    /* connection: upgrade, which a final response may offer */
    bool upgrade_to; /* it has an Upgrade field */
} nb_response_head_t;

/* Writes the status line and the application's fields into request->head. */
void nb_response_head_begin(nb_response_head_t *head, VALUE headers);
/* Whether this response may have a body at all. */
bool nb_response_has_body(const nb_request_t *request);
/* Decides the framing, then adds Date, Connection and the empty line. size: the body's, if it is
 * known before it is written, otherwise NB_LENGTH_UNKNOWN. */
void nb_response_head_finish(nb_response_head_t *head, uint64_t size);
/* The head has been written or copied: its memory serves the next one. */
void nb_response_head_give_back(nb_request_t *request);
void nb_response_head_init(void);

#endif
