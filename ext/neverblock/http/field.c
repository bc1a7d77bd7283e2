/* field.c - cuts one field line into name and value. Pure C, no allocation.
 *
 * Read after: field.h, tables.h.
 */
#include "field.h"
#include "bytes.h"
#include "head.h"
#include "tables.h"

#include <string.h>

static unsigned known_field(const char *name, size_t size)
{
    if (size < 2)
        return NB_FIELD_UNKNOWN;
    unsigned known =
        nb_field_slots[NB_FIELD_SLOT((unsigned)size, nb_byte_at(name), nb_byte_at(name + size / 2),
                                     nb_byte_at(name + size - 2), nb_byte_at(name + size - 1))];
    const struct nb_field_name *entry = &nb_field_names[known];
    if (entry->size != size || !known)
        return NB_FIELD_UNKNOWN;
    for (size_t i = 0; i < size; i++) {
        /* Both are tokens. There, bytes that differ only in bit 5 are letters, or "^" and "~",
         * and no known name has "~". */
        if (((unsigned char)entry->name[i] ^ nb_byte_at(name + i)) & ~0x20u)
            return NB_FIELD_UNKNOWN;
    }
    return known;
}

/* The first byte of at…end that a field value may not contain, or end. Takes eight bytes per step:
 * only control bytes are below 0x20 (tabs are allowed singly), and only DEL is 0x7f. */
static const char *value_end(const char *at, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    for (;;) {
        while (end - at >= 8) {
            uint64_t word, low, del;
            memcpy(&word, at, 8);
            low = (word - ones * 0x20) & ~word & tops;
            del = ((word ^ ones * 0x7f) - ones) & ~(word ^ ones * 0x7f) & tops;
            if (low | del)
                break; /* perhaps a false alarm after the first byte: checked singly below */
            at += 8;
        }
        const char *stop = end - at >= 8 ? at + 8 : end;
        for (; at < stop; at++)
            if ((nb_byte_at(at) < 0x20 && *at != '\t') || nb_byte_at(at) == 0x7f)
                return at;
        if (at == end)
            return end;
    }
}

int nb_field_read(const char *line, size_t size, nb_field_t *field)
{
    const char *at = line, *end = line + size;
    if (size && nb_is_blank(line))
        return NB_HEAD_FOLDED;
    while (at < end && nb_is_token[nb_byte_at(at)])
        at++;
    size_t name_size = (size_t)(at - line);
    if (!name_size || name_size > UINT16_MAX || at == end || *at != ':')
        return NB_HEAD_BAD_NAME;
    for (at++; at < end && nb_is_blank(at);)
        at++;
    if (value_end(at, end) != end)
        return NB_HEAD_BAD_VALUE;
    while (end > at && nb_is_blank(end - 1))
        end--;
    *field = (nb_field_t){
        .name = 0,
        .name_size = (uint16_t)name_size,
        .value = (uint32_t)(at - line),
        .value_size = (uint32_t)(end - at),
        .known = (uint16_t)known_field(line, name_size),
    };
    return 0;
}
