/* bytes.h - looking at the bytes of a request: spans, digits, blanks, words, lists. Pure C. */
#ifndef NB_HTTP_BYTES_H
#define NB_HTTP_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Offsets from the first byte of the head. */
typedef struct nb_span {
    uint32_t at, size;
} nb_span_t;

static inline nb_span_t nb_span_of(const char *bytes, const char *from, const char *to)
{
    return (nb_span_t){.at = (uint32_t)(from - bytes), .size = (uint32_t)(to - from)};
}

static inline unsigned char nb_byte_at(const char *at)
{
    return (unsigned char)*at;
}

static inline int nb_is_digit(const char *at)
{
    return (unsigned)nb_byte_at(at) - '0' < 10u;
}

static inline int nb_is_blank(const char *at)
{
    return *at == ' ' || *at == '\t';
}

/* Compares without case. text is lower case; both have size bytes. */
static inline int nb_same_word(const char *at, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = nb_byte_at(at + i);
        if ((unsigned)byte - 'A' < 26u)
            byte |= 0x20;
        if (byte != (unsigned char)text[i])
            return 0;
    }
    return 1;
}

/* Cuts the next element out of a comma list, and skips empty ones. Returns 0 at the end. */
static inline int nb_next_element(const char **at, const char *end, const char **element,
                                  size_t *size)
{
    while (*at < end && (nb_is_blank(*at) || **at == ','))
        (*at)++;
    if (*at == end)
        return 0;
    *element = *at;
    while (*at < end && **at != ',')
        (*at)++;
    const char *last = *at;
    while (last > *element && nb_is_blank(last - 1))
        last--;
    *size = (size_t)(last - *element);
    return 1;
}

#endif
