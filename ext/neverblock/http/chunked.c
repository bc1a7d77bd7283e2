/* chunked.c - takes a chunked request body apart. Pure C, no allocation.
 *
 * Each byte moves the state by one step, except in data, which is passed on in one piece.
 * The grammar is that of RFC 9112 7.1, with "bad" blanks only where it has BWS.
 *
 * Read after: chunked.h, tables.h.
 */
#include "chunked.h"
#include "tables.h"

#include <string.h>

enum {
    SIZE,
    AFTER_SIZE, /* blanks before ";" or "=" */
    BEFORE_NAME,
    NAME,
    AFTER_NAME,
    BEFORE_VALUE,
    TOKEN_VALUE,
    QUOTED,
    QUOTED_PAIR,
    AFTER_QUOTED,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* first byte of a trailer line */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    DONE
};

void nb_chunked_start(nb_chunked_t *chunked)
{
    memset(chunked, 0, sizeof(*chunked));
}

static int hex_value(unsigned char byte)
{
    if ((unsigned)byte - '0' < 10)
        return byte - '0';
    byte |= 0x20;
    return (unsigned)byte - 'a' < 6 ? byte - 'a' + 10 : -1;
}

static int is_text(unsigned char byte)
{
    return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static int is_blank(unsigned char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Enters the state if that is allowed; otherwise returns the error. */
static int step(nb_chunked_t *chunked, int allowed, int state, int error)
{
    if (!allowed)
        return error;
    chunked->state = (uint8_t)state;
    return 0;
}

static int size_byte(nb_chunked_t *chunked, unsigned char byte)
{
    int value = hex_value(byte);
    if (value >= 0) {
        /* Leading zeros are legal, but nobody needs more digits than 64 bits have. */
        if (chunked->left > (uint64_t)INT64_MAX >> 4 || chunked->digits == 16)
            return NB_CHUNKED_HUGE_SIZE;
        chunked->left = chunked->left << 4 | (uint64_t)value;
        chunked->digits++;
        return 0;
    }
    if (!chunked->digits)
        return NB_CHUNKED_BAD_SIZE;
    if (byte == '\r')
        chunked->state = SIZE_LF;
    else if (byte == ';')
        chunked->state = BEFORE_NAME;
    else
        return step(chunked, is_blank(byte), AFTER_SIZE, NB_CHUNKED_BAD_SIZE);
    return 0;
}

/* After a name, a value or the size: blanks, then ";"; without blanks also the end of the line. */
static int separator(nb_chunked_t *chunked, unsigned char byte, int blank_state)
{
    if (byte == ';')
        chunked->state = BEFORE_NAME;
    else if (byte == '\r' && blank_state != chunked->state)
        chunked->state = SIZE_LF;
    else
        return step(chunked, is_blank(byte), blank_state, NB_CHUNKED_BAD_EXTENSION);
    return 0;
}

static int extension_byte(nb_chunked_t *chunked, unsigned char byte)
{
    switch (chunked->state) {
    case AFTER_SIZE:
        return separator(chunked, byte, AFTER_SIZE);
    case BEFORE_NAME:
        return is_blank(byte) ? 0
                              : step(chunked, nb_is_token[byte], NAME, NB_CHUNKED_BAD_EXTENSION);
    case NAME:
        if (nb_is_token[byte])
            return 0;
        return byte == '=' ? step(chunked, 1, BEFORE_VALUE, 0)
                           : separator(chunked, byte, AFTER_NAME);
    case AFTER_NAME:
        return byte == '=' ? step(chunked, 1, BEFORE_VALUE, 0)
                           : separator(chunked, byte, AFTER_NAME);
    case BEFORE_VALUE:
        if (is_blank(byte))
            return 0;
        return byte == '"'
                   ? step(chunked, 1, QUOTED, 0)
                   : step(chunked, nb_is_token[byte], TOKEN_VALUE, NB_CHUNKED_BAD_EXTENSION);
    case TOKEN_VALUE:
        return nb_is_token[byte] ? 0 : separator(chunked, byte, AFTER_SIZE);
    case QUOTED:
        if (byte == '"')
            return step(chunked, 1, AFTER_QUOTED, 0);
        return step(chunked, is_text(byte), byte == '\\' ? QUOTED_PAIR : QUOTED,
                    NB_CHUNKED_BAD_EXTENSION);
    case QUOTED_PAIR:
        return step(chunked, is_text(byte), QUOTED, NB_CHUNKED_BAD_EXTENSION);
    default: /* AFTER_QUOTED */
        return separator(chunked, byte, AFTER_SIZE);
    }
}

static int trailer_byte(nb_chunked_t *chunked, unsigned char byte)
{
    switch (chunked->state) {
    case TRAILER:
        if (byte == '\r')
            return step(chunked, 1, LAST_LF, 0);
        return step(chunked, nb_is_token[byte], TRAILER_NAME, NB_CHUNKED_BAD_TRAILER);
    case TRAILER_NAME:
        if (byte == ':')
            return step(chunked, 1, TRAILER_VALUE, 0);
        return step(chunked, nb_is_token[byte], TRAILER_NAME, NB_CHUNKED_BAD_TRAILER);
    case TRAILER_VALUE:
        return step(chunked, byte == '\r' || is_text(byte),
                    byte == '\r' ? TRAILER_LF : TRAILER_VALUE, NB_CHUNKED_BAD_TRAILER);
    case TRAILER_LF:
        return step(chunked, byte == '\n', TRAILER, NB_CHUNKED_BAD_TRAILER);
    default: /* LAST_LF */
        return step(chunked, byte == '\n', DONE, NB_CHUNKED_BAD_TRAILER);
    }
}

static int framing_byte(nb_chunked_t *chunked, unsigned char byte)
{
    switch (chunked->state) {
    case SIZE:
        return size_byte(chunked, byte);
    case SIZE_LF:
        chunked->digits = 0;
        return step(chunked, byte == '\n', chunked->left ? DATA : TRAILER, NB_CHUNKED_BAD_SIZE);
    case DATA_CR:
        return step(chunked, byte == '\r', DATA_LF, NB_CHUNKED_BAD_END);
    case DATA_LF:
        return step(chunked, byte == '\n', SIZE, NB_CHUNKED_BAD_END);
    default:
        if (++chunked->extra > NB_CHUNKED_EXTRA_BYTES)
            return NB_CHUNKED_LONG_EXTRA;
        return chunked->state < SIZE_LF ? extension_byte(chunked, byte)
                                        : trailer_byte(chunked, byte);
    }
}

static int take_data(nb_chunked_t *chunked, size_t at, size_t size, nb_piece_t *piece)
{
    size_t count = chunked->left < size - at ? (size_t)chunked->left : size - at;
    *piece = (nb_piece_t){.at = at, .size = count, .used = at + count};
    chunked->left -= count;
    if (!chunked->left)
        chunked->state = DATA_CR;
    return NB_CHUNKED_DATA;
}

int nb_chunked_read(nb_chunked_t *chunked, const char *bytes, size_t size, nb_piece_t *piece)
{
    *piece = (nb_piece_t){0};
    for (size_t at = 0; at < size && chunked->state != DONE; at++) {
        if (chunked->state == DATA)
            return take_data(chunked, at, size, piece);
        int error = framing_byte(chunked, (unsigned char)bytes[at]);
        piece->used = at + 1;
        if (error)
            return error;
    }
    return chunked->state == DONE ? NB_CHUNKED_DONE : NB_CHUNKED_MORE;
}

int nb_chunked_status(int error)
{
    switch (error) {
#define X(name, status, text)                                                                      \
    case NB_CHUNKED_##name:                                                                        \
        return status;
        NB_CHUNKED_ERRORS(X)
#undef X
    default:
        return 500;
    }
}

const char *nb_chunked_text(int error)
{
    switch (error) {
#define X(name, status, text)                                                                      \
    case NB_CHUNKED_##name:                                                                        \
        return text;
        NB_CHUNKED_ERRORS(X)
#undef X
    default:
        return "[BUG] no such error";
    }
}
