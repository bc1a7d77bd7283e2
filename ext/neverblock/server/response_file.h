/* response_file.h - a body that is a file. Uses ruby.h. Read after: response_head.h. */
#ifndef NB_SERVER_RESPONSE_FILE_H
#define NB_SERVER_RESPONSE_FILE_H

#include "server/response_head.h"

typedef struct {
    int fd;   /* our own, so the application's body can be closed at once */
    off_t at; /* where the body begins in it */
    uint64_t size;
} nb_response_file_t;

/* Returns false, and leaves file as it is, if the body is no file or if only its each knows what it
 * is. */
bool nb_response_file_open(nb_response_file_t *file, const nb_response_head_t *head, VALUE body);
void nb_response_file_init(void);

#endif
