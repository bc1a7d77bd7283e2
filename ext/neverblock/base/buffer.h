/* buffer.h - bytes that grow by doubling. Pure C. */
#ifndef NB_BUFFER_H
#define NB_BUFFER_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *bytes;
    size_t size, capacity;
} nb_buffer_t;

/* Returns 0 or -ENOMEM. */
static inline int nb_buffer_append(nb_buffer_t *buffer, const char *bytes, size_t size)
{
    if (buffer->size + size > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : 256;
        while (capacity < buffer->size + size)
            capacity *= 2;
        char *grown = realloc(buffer->bytes, capacity);
        if (!grown)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}

static inline void nb_buffer_free(nb_buffer_t *buffer)
{
    free(buffer->bytes);
    *buffer = (nb_buffer_t){0};
}

#endif
