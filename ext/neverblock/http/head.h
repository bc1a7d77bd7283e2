/* head.h - reads the head of one HTTP/1.0 or 1.1 request: bytes in, spans out. Pure C, no
 * allocation.
 *
 * Strict where RFC 9110 and 9112 let a server choose: it refuses whatever two readers could
 * understand differently, so that no proxy in front can see another framing than ours.
 *
 * Read after: tables.h.
 *
 * The whole read loop:
 *
 *     nb_head_t head;
 *     nb_head_start(&head);
 *     for (;;) {
 *         size += read(fd, bytes + size, capacity - size);
 *         int result = nb_head_read(&head, bytes, size, fields, 64, &limits);
 *         if (result == NB_HEAD_DONE)
 *             break;                             // body begins at bytes + head.size
 *         if (result != NB_HEAD_MORE)
 *             return refuse(nb_head_status(result), nb_head_text(result));
 *     }
 *
 * Between calls, bytes may move (all spans are offsets from the first byte) but not change.
 */
#ifndef NB_HTTP_HEAD_H
#define NB_HTTP_HEAD_H

#include "bytes.h"
#include "field.h"

typedef struct nb_head_limits {
    uint32_t line_bytes;  /* request line with its end: beyond it 414 */
    uint32_t head_bytes;  /* everything up to the empty line: beyond it 431; below 2^31 */
    uint32_t field_count; /* beyond it 431 */
} nb_head_limits_t;

/* The form of the target, RFC 9112 3.2. */
enum nb_target_form {
    NB_TARGET_ORIGIN,    /* /path?query */
    NB_TARGET_ABSOLUTE,  /* http://host/path?query: path, query and host are cut out of it */
    NB_TARGET_AUTHORITY, /* host:port, only with CONNECT */
    NB_TARGET_ASTERISK   /* "*", only with OPTIONS */
};

enum nb_head_flag {
    NB_HEAD_KEEP_ALIVE = 1,      /* the client wants to keep the connection */
    NB_HEAD_CHUNKED = 2,         /* body in chunks */
    NB_HEAD_HAS_LENGTH = 4,      /* there is a Content-Length, even if it is 0 */
    NB_HEAD_EXPECT_CONTINUE = 8, /* client waits for "100 Continue" before it sends the body */
    NB_HEAD_UPGRADE = 16,        /* Upgrade field and "Connection: upgrade" */
    NB_HEAD_HTTPS = 32,          /* the absolute form has https */
    /* Only while reading. */
    NB_HEAD_SAW_HOST = 64,
    NB_HEAD_SAW_CLOSE = 128,
    NB_HEAD_SAW_KEEP_ALIVE = 256,
    NB_HEAD_SAW_UPGRADE = 512,
    NB_HEAD_SAW_CONNECTION_UPGRADE = 1024,
    NB_HEAD_SAW_CODING = 2048,
    NB_HEAD_SAW_OTHER_CODING = 4096
};

typedef struct nb_head {
    /* The state of the reading; only nb_head_read changes it. */
    uint32_t line;    /* first byte of the line being read */
    uint32_t scanned; /* no line feed before this byte; the next call continues here */
    uint8_t stage;
    /* The result, complete after NB_HEAD_DONE. */
    uint8_t minor; /* 0 or 1; higher ones of HTTP/1 are answered as 1.1 */
    uint8_t form;  /* enum nb_target_form */
    uint16_t flags;
    uint32_t field_count;
    uint32_t size; /* bytes of the head with its empty line; the body starts here */
    nb_span_t method, target, path, query;
    nb_span_t host; /* of the absolute form, else of the Host field, with the port; may be empty */
    uint64_t content_length;
} nb_head_t;

/* Answers of nb_head_read. Errors are negative; X(name, status, text). */
#define NB_HEAD_ERRORS(X)                                                                          \
    X(BAD_METHOD, 400, "the method is not a token")                                                \
    X(LONG_METHOD, 501, "the method is longer than any we know")                                   \
    X(BAD_TARGET, 400, "the request target is malformed")                                          \
    X(BAD_VERSION, 400, "the protocol version is malformed")                                       \
    X(UNKNOWN_VERSION, 505, "only HTTP/1.0 and HTTP/1.1 are supported")                            \
    X(BARE_LF, 400, "a line ends without carriage return")                                         \
    X(BAD_NAME, 400, "a field name is malformed")                                                  \
    X(BAD_VALUE, 400, "a field value has a control character")                                     \
    X(FOLDED, 400, "a field line begins with a blank")                                             \
    X(LONG_LINE, 414, "the request line is too long")                                              \
    X(LONG_HEAD, 431, "the request head is too long")                                              \
    X(MANY_FIELDS, 431, "the request has too many fields")                                         \
    X(NO_HOST, 400, "the Host field is missing")                                                   \
    X(TWO_HOSTS, 400, "the Host field appears twice")                                              \
    X(BAD_HOST, 400, "the Host field is malformed or empty")                                       \
    X(BAD_LENGTH, 400, "the Content-Length is not one plain number")                               \
    X(TWO_LENGTHS, 400, "the Content-Length appears twice")                                        \
    X(HUGE_LENGTH, 400, "the Content-Length has more digits than a length can have")               \
    X(BAD_CODING, 400, "the Transfer-Encoding does not end in one chunked")                        \
    X(UNKNOWN_CODING, 501, "the only supported transfer coding is chunked")                        \
    X(OLD_CODING, 400, "Transfer-Encoding came with HTTP/1.0")                                     \
    X(TWO_FRAMINGS, 400, "Content-Length and Transfer-Encoding came together")                     \
    X(MASKED_FRAMING, 400, "a Content_Length or Transfer_Encoding has an underscore")              \
    X(BAD_EXPECT, 417, "the only supported expectation is 100-continue")

enum nb_head_result {
    NB_HEAD_MORE = 0, /* not complete: call again with more bytes */
    NB_HEAD_DONE = 1,
    NB_HEAD_FIELDS_FULL = 2, /* call again with a larger fields array, old entries kept */
    NB_HEAD_FIRST_ERROR = -1000,
#define X(name, status, text) NB_HEAD_##name,
    NB_HEAD_ERRORS(X)
#undef X
};

/* Prepares head for a new request. */
void nb_head_start(nb_head_t *head);

/* Continues to read. However often it is called, it scans each byte for the line end only once.
 * bytes, size - everything of this request that has arrived, from its first byte
 * fields      - receives the field lines; capacity entries, which the caller keeps between calls
 * limits      - field_count is checked even if capacity is larger
 * Returns NB_HEAD_DONE, NB_HEAD_MORE, NB_HEAD_FIELDS_FULL or a negative NB_HEAD_… error; after an
 * error the connection can only be answered and closed. */
int nb_head_read(nb_head_t *head, const char *bytes, size_t size, nb_field_t *fields,
                 size_t capacity, const nb_head_limits_t *limits);

/* The HTTP status for an error of nb_head_read: 400, 414, 417, 431, 501 or 505. */
int nb_head_status(int error);

/* One clause for the response body and the log. */
const char *nb_head_text(int error);

#endif
