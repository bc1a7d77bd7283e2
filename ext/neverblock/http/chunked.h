/* chunked.h - takes a chunked request body apart, RFC 9112 7.1. Pure C, no allocation.
 *
 * Read after: head.h.
 *
 *     while ((result = nb_chunked_read(&chunked, bytes, size, &piece)) == NB_CHUNKED_DATA) {
 *         append(body, bytes + piece.at, piece.size);
 *         bytes += piece.used;
 *         size -= piece.used;
 *     }
 *     // MORE: every byte is used, read again. DONE: piece.used bytes used, the rest is the next
 *     // request. Negative: answer nb_chunked_status(result) and close.
 */
#ifndef NB_HTTP_CHUNKED_H
#define NB_HTTP_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

/* The most bytes of all extensions and trailers of one body (RFC 9112 7.1.1 asks for a limit).
 * Sizes and line ends are not counted, because each chunk has data, and the body has a limit. */
#define NB_CHUNKED_EXTRA_BYTES 16384

typedef struct nb_chunked {
    uint64_t left;  /* data bytes still to come in this chunk */
    uint32_t extra; /* bytes of extensions and trailers so far */
    uint8_t state;
    uint8_t digits; /* of the chunk size being read */
} nb_chunked_t;

typedef struct nb_piece {
    size_t at, size; /* data, offset from the bytes given */
    size_t used;     /* bytes consumed, data included */
} nb_piece_t;

#define NB_CHUNKED_ERRORS(X)                                                                       \
    X(BAD_SIZE, 400, "a chunk size is not hexadecimal")                                            \
    X(HUGE_SIZE, 400, "a chunk size has more digits than a size can have")                         \
    X(BAD_EXTENSION, 400, "a chunk extension is malformed")                                        \
    X(BAD_END, 400, "a chunk does not end where its size says")                                    \
    X(BAD_TRAILER, 400, "a trailer field is malformed")                                            \
    X(LONG_EXTRA, 431, "the chunk extensions and trailers are too long")

enum nb_chunked_result {
    NB_CHUNKED_MORE = 0,
    NB_CHUNKED_DATA = 1,
    NB_CHUNKED_DONE = 2,
    NB_CHUNKED_FIRST_ERROR = -2000,
#define X(name, status, text) NB_CHUNKED_##name,
    NB_CHUNKED_ERRORS(X)
#undef X
};

/* Prepares chunked for a new body. */
void nb_chunked_start(nb_chunked_t *chunked);

/* Continues to read. Give each byte once. Trailers are checked and dropped.
 * Returns NB_CHUNKED_DATA with a piece of the body, NB_CHUNKED_MORE, NB_CHUNKED_DONE or a negative
 * NB_CHUNKED_… error; piece->used is set in every case. */
int nb_chunked_read(nb_chunked_t *chunked, const char *bytes, size_t size, nb_piece_t *piece);

/* The HTTP status for an error: 400 or 431. */
int nb_chunked_status(int error);

/* One clause for the response body and the log. */
const char *nb_chunked_text(int error);

#endif
