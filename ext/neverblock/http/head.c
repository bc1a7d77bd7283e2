/* head.c - reads the head of one HTTP/1.0 or 1.1 request. Pure C, no allocation.
 *
 * Read nb_head_read (last function) first: it cuts lines; request_line and field_line judge one
 * line each; finish judges what can only be known at the empty line.
 *
 * Read after: head.h, target.h, field.h.
 */
#include "head.h"
#include "bytes.h"
#include "field.h"
#include "tables.h"
#include "target.h"

#include <string.h>

enum { STAGE_BLANK, STAGE_REQUEST, STAGE_FIELDS, STAGE_DONE };

/* Longer than any method registered with IANA (the longest is UPDATEREDIRECTREF, 17 bytes). */
#define LONGEST_METHOD 32

typedef struct {
    const char *bytes; /* first byte of the head */
    const char *at;    /* first byte of the line */
    const char *end;   /* first byte after the line, without CR LF */
} line_t;

void nb_head_start(nb_head_t *head)
{
    memset(head, 0, sizeof(*head));
}

/* --- request line ------------------------------------------------------------------------ */

static int read_version(nb_head_t *head, const char *at, const char *end)
{
    if (end - at != 8 || memcmp(at, "HTTP/", 5) != 0 || !nb_is_digit(at + 5) || at[6] != '.' ||
        !nb_is_digit(at + 7))
        return NB_HEAD_BAD_VERSION;
    if (at[5] != '1')
        return NB_HEAD_UNKNOWN_VERSION;
    head->minor = at[7] == '0' ? 0 : 1;
    return 0;
}

static int request_line(nb_head_t *head, const line_t *line)
{
    const char *at = line->at;
    while (at < line->end && nb_is_token[nb_byte_at(at)])
        at++;
    head->method = nb_span_of(line->bytes, line->at, at);
    if (at == line->at || at == line->end || *at != ' ')
        return NB_HEAD_BAD_METHOD;
    if (head->method.size > LONGEST_METHOD)
        return NB_HEAD_LONG_METHOD;
    const char *target = ++at;
    while (at < line->end && nb_is_target[nb_byte_at(at)])
        at++;
    if (at == line->end)
        return NB_HEAD_BAD_VERSION; /* HTTP/0.9 has no version */
    if (*at != ' ')
        return NB_HEAD_BAD_TARGET;
    /* The version comes first: "PRI * HTTP/2.0" has to get 505, not an error about its target. */
    int error = read_version(head, at + 1, line->end);
    return error ? error : nb_target_read(head, line->bytes, target, at);
}

/* --- field lines ------------------------------------------------------------------------- */

static void read_connection(nb_head_t *head, const char *at, const char *end)
{
    const char *element;
    size_t size;
    while (nb_next_element(&at, end, &element, &size)) {
        if (size == 5 && nb_same_word(element, "close", 5))
            head->flags |= NB_HEAD_SAW_CLOSE;
        else if (size == 10 && nb_same_word(element, "keep-alive", 10))
            head->flags |= NB_HEAD_SAW_KEEP_ALIVE;
        else if (size == 7 && nb_same_word(element, "upgrade", 7))
            head->flags |= NB_HEAD_SAW_CONNECTION_UPGRADE;
    }
}

static int read_length(nb_head_t *head, const char *at, const char *end)
{
    uint64_t value = 0;
    if (head->flags & NB_HEAD_HAS_LENGTH)
        return NB_HEAD_TWO_LENGTHS;
    head->flags |= NB_HEAD_HAS_LENGTH;
    if (at == end)
        return NB_HEAD_BAD_LENGTH;
    int huge = 0;
    for (; at < end; at++) {
        if (!nb_is_digit(at))
            return NB_HEAD_BAD_LENGTH;
        if (value > (uint64_t)(INT64_MAX - 9) / 10)
            huge = 1; /* reported only if every byte is a digit */
        else
            value = value * 10 + (nb_byte_at(at) - '0');
    }
    head->content_length = value;
    return huge ? NB_HEAD_HUGE_LENGTH : 0;
}

/* RFC 9112 6.1: chunked once, and last. Anything before it is a coding that we do not have. An
 * empty element, which other lists may have, is refused: a reader that does not understand
 * ", chunked" takes the body for the next request. */
static int read_coding(nb_head_t *head, const char *at, const char *end)
{
    const char *element;
    size_t size, elements = 0, commas = 0;
    head->flags |= NB_HEAD_SAW_CODING;
    for (const char *byte = at; byte < end; byte++)
        commas += *byte == ',';
    for (; nb_next_element(&at, end, &element, &size); elements++) {
        if (head->flags & NB_HEAD_CHUNKED)
            return NB_HEAD_BAD_CODING;
        if (size == 7 && nb_same_word(element, "chunked", 7))
            head->flags |= NB_HEAD_CHUNKED;
        else
            head->flags |= NB_HEAD_SAW_OTHER_CODING;
    }
    return elements == commas + 1 ? 0 : NB_HEAD_BAD_CODING;
}

static int read_host(nb_head_t *head, const line_t *line, const char *at, const char *end)
{
    if (head->flags & NB_HEAD_SAW_HOST)
        return NB_HEAD_TWO_HOSTS;
    head->flags |= NB_HEAD_SAW_HOST;
    if (!nb_target_good_authority(at, end) || (at < end && *at == ':'))
        return NB_HEAD_BAD_HOST;
    /* RFC 9110 4.2.1: no http URI has an empty host. Only the origin form takes it from here. */
    if (at == end && head->form == NB_TARGET_ORIGIN)
        return NB_HEAD_BAD_HOST;
    if (head->form == NB_TARGET_ORIGIN || head->form == NB_TARGET_ASTERISK)
        head->host = nb_span_of(line->bytes, at, end);
    return 0;
}

/* Tabs may surround a value, but not every reader strips them from a number or "chunked". */
static int has_tab(const line_t *line)
{
    return memchr(line->at, '\t', (size_t)(line->end - line->at)) != NULL;
}

/* "Content_Length": to whoever turns names into CGI variables, as many servers do, it is the same
 * field as with a hyphen. */
static int masks_framing(const char *name, size_t size)
{
    return (size == 14 && name[7] == '_' && nb_same_word(name, "content", 7) &&
            nb_same_word(name + 8, "length", 6)) ||
           (size == 17 && name[8] == '_' && nb_same_word(name, "transfer", 8) &&
            nb_same_word(name + 9, "encoding", 8));
}

/* What a field means for framing and connection. All other fields are up to the application. */
static int field_line(nb_head_t *head, const line_t *line, nb_field_t *field)
{
    int error = nb_field_read(line->at, (size_t)(line->end - line->at), field);
    if (error)
        return error;
    const char *value = line->at + field->value, *end = value + field->value_size;
    uint32_t base = (uint32_t)(line->at - line->bytes);
    field->name += base;
    field->value += base;
    switch (field->known) {
    case NB_FIELD_HOST:
        return read_host(head, line, value, end);
    case NB_FIELD_CONTENT_LENGTH:
        return has_tab(line) ? NB_HEAD_BAD_LENGTH : read_length(head, value, end);
    case NB_FIELD_TRANSFER_ENCODING:
        return has_tab(line) ? NB_HEAD_BAD_CODING : read_coding(head, value, end);
    case NB_FIELD_CONNECTION:
        read_connection(head, value, end);
        return 0;
    case NB_FIELD_UPGRADE:
        head->flags |= NB_HEAD_SAW_UPGRADE;
        return 0;
    case NB_FIELD_EXPECT:
        if (field->value_size != 12 || !nb_same_word(value, "100-continue", 12))
            return NB_HEAD_BAD_EXPECT;
        head->flags |= NB_HEAD_EXPECT_CONTINUE;
        return 0;
    case NB_FIELD_UNKNOWN:
        return masks_framing(line->at, field->name_size) ? NB_HEAD_MASKED_FRAMING : 0;
    default:
        return 0;
    }
}

/* --- the whole head ---------------------------------------------------------------------- */

static int finish(nb_head_t *head)
{
    unsigned flags = head->flags;
    if (head->minor > 0 && !(flags & NB_HEAD_SAW_HOST))
        return NB_HEAD_NO_HOST;
    if (flags & NB_HEAD_SAW_CODING) {
        if (head->minor == 0)
            return NB_HEAD_OLD_CODING;
        if (flags & NB_HEAD_HAS_LENGTH)
            return NB_HEAD_TWO_FRAMINGS;
        if (!(flags & NB_HEAD_CHUNKED))
            return NB_HEAD_BAD_CODING;
        if (flags & NB_HEAD_SAW_OTHER_CODING)
            return NB_HEAD_UNKNOWN_CODING;
    }
    if (!(flags & NB_HEAD_SAW_CLOSE) && (head->minor > 0 || flags & NB_HEAD_SAW_KEEP_ALIVE))
        head->flags |= NB_HEAD_KEEP_ALIVE;
    if (flags & NB_HEAD_SAW_UPGRADE && flags & NB_HEAD_SAW_CONNECTION_UPGRADE && head->minor > 0)
        head->flags |= NB_HEAD_UPGRADE;
    /* RFC 9110 10.1.1: a 1.0 client cannot read an interim response. */
    if (head->minor == 0)
        head->flags &= (uint16_t)~NB_HEAD_EXPECT_CONTINUE;
    head->stage = STAGE_DONE;
    head->size = head->line;
    return NB_HEAD_DONE;
}

/* Judges one complete line. Returns NB_HEAD_MORE to continue with the next. */
static int whole_line(nb_head_t *head, const line_t *line, nb_field_t *fields, size_t capacity,
                      const nb_head_limits_t *limits)
{
    int error;
    if (head->stage < STAGE_FIELDS) {
        /* RFC 9112 2.2: one empty line before the request is ignored. */
        if (line->at == line->end && head->stage == STAGE_BLANK) {
            head->stage = STAGE_REQUEST;
            return NB_HEAD_MORE;
        }
        if ((size_t)(line->end - line->at) + 2 > limits->line_bytes)
            return NB_HEAD_LONG_LINE;
        head->stage = STAGE_FIELDS;
        return request_line(head, line);
    }
    if (line->at == line->end)
        return NB_HEAD_DONE;
    if (head->field_count >= limits->field_count)
        return NB_HEAD_MANY_FIELDS;
    if (head->field_count >= capacity)
        return NB_HEAD_FIELDS_FULL;
    error = field_line(head, line, &fields[head->field_count]);
    if (!error)
        head->field_count++;
    return error;
}

/* Whether a line that is still incomplete can become one that we accept. */
static int part_of_line(const nb_head_t *head, const char *bytes, size_t size,
                        const nb_head_limits_t *limits)
{
    if (head->stage < STAGE_FIELDS && size > head->line) {
        unsigned char first = nb_byte_at(bytes + head->line);
        if (!nb_is_token[first] && !(first == '\r' && head->stage == STAGE_BLANK))
            return NB_HEAD_BAD_METHOD; /* TLS to a plain port fails here, at its first byte */
        if (size - head->line >= limits->line_bytes)
            return NB_HEAD_LONG_LINE;
    }
    return size >= limits->head_bytes ? NB_HEAD_LONG_HEAD : NB_HEAD_MORE;
}

int nb_head_read(nb_head_t *head, const char *bytes, size_t size, nb_field_t *fields,
                 size_t capacity, const nb_head_limits_t *limits)
{
    while (head->stage != STAGE_DONE) {
        const char *from = bytes + head->scanned;
        const char *feed = memchr(from, '\n', size - head->scanned);
        if (!feed) {
            head->scanned = (uint32_t)size;
            return part_of_line(head, bytes, size, limits);
        }
        line_t line = {.bytes = bytes, .at = bytes + head->line, .end = feed - 1};
        if (feed == line.at || *line.end != '\r')
            return NB_HEAD_BARE_LF;
        if ((size_t)(feed + 1 - bytes) > limits->head_bytes)
            return head->stage < STAGE_FIELDS ? NB_HEAD_LONG_LINE : NB_HEAD_LONG_HEAD;
        int result = whole_line(head, &line, fields, capacity, limits);
        if (result == NB_HEAD_FIELDS_FULL) {
            head->scanned = (uint32_t)(feed - bytes);
            return result;
        }
        head->line = head->scanned = (uint32_t)(feed + 1 - bytes);
        if (result == NB_HEAD_DONE)
            return finish(head);
        if (result)
            return result;
    }
    return NB_HEAD_DONE;
}

int nb_head_status(int error)
{
    switch (error) {
#define X(name, status, text)                                                                      \
    case NB_HEAD_##name:                                                                           \
        return status;
        NB_HEAD_ERRORS(X)
#undef X
    default:
        return 500;
    }
}

const char *nb_head_text(int error)
{
    switch (error) {
#define X(name, status, text)                                                                      \
    case NB_HEAD_##name:                                                                           \
        return text;
        NB_HEAD_ERRORS(X)
#undef X
    default:
        return "[BUG] no such error";
    }
}
