/* field.h - one field line of a head. Pure C, no allocation.
 *
 * Read after: tables.h.
 */
#ifndef NB_HTTP_FIELD_H
#define NB_HTTP_FIELD_H

#include <stddef.h>
#include <stdint.h>

typedef struct nb_field {
    uint32_t name, value; /* offsets from the first byte of the head */
    uint32_t value_size;  /* without the blanks around it */
    uint16_t name_size;
    uint16_t known; /* NB_FIELD_… of tables.h, 0 for every other name */
} nb_field_t;

/* Checks one field line without its line end.
 * Returns 0 with the spans (offsets from line) in field, or a negative NB_HEAD_… error. */
int nb_field_read(const char *line, size_t size, nb_field_t *field);

#endif
