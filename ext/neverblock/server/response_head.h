/* response_head.h - the head of a response while it is written. Ruby.
 *
 * Read after: server.h. Used by: response.c.
 */
#ifndef NB_SERVER_RESPONSE_HEAD_H
#define NB_SERVER_RESPONSE_HEAD_H

#include "server/server.h"

typedef struct {
    nb_request_t *request;
    nb_buffer_t *out;
    VALUE hijack; /* partial hijack: the value of "rack.hijack" */
    uint64_t length;
    bool has_length, has_date, has_connection, has_coding, upgrade;
} nb_response_head_t;

/* Status line and the application's fields, into request->head. */
void nb_response_head_begin(nb_response_head_t *head, VALUE headers);
/* Framing, Date, Connection and the empty line: length and has_length must be known now. */
void nb_response_head_finish(nb_response_head_t *head);
/* The head is written or copied: its memory serves the next one. */
void nb_response_head_give_back(nb_request_t *request);
void nb_response_head_init(void);

#endif
