/* answer.h - reads the head of one HTTP response: bytes in, spans out. Pure C, no allocation.
 *
 * It reads heads as nearly all servers send them, and leaves all others to the caller: how clients
 * read folded lines, bare line feeds and the like is up to them.
 *
 * Read after: field.h.
 */
#ifndef NB_HTTP_ANSWER_H
#define NB_HTTP_ANSWER_H

#include "bytes.h"
#include "field.h"

typedef struct nb_answer {
    nb_span_t version, code, message; /* "1.1", "200", "OK" */
    int has_message;                  /* "HTTP/1.1 200" has none; "HTTP/1.1 200 " an empty one */
    uint32_t field_count;
    uint32_t size; /* bytes of the head with its empty line; the body starts here */
} nb_answer_t;

/* bytes, size - from the first byte of the response
 * fields      - receives the field lines, spans from the first byte of the head
 * Returns 1 for a complete plain head, 0 for anything else (incomplete, odd, too many fields). */
int nb_answer_read(nb_answer_t *answer, const char *bytes, size_t size, nb_field_t *fields,
                   size_t capacity);

#endif
