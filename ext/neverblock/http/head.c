/* head.c - reads the head of one HTTP/1.0 or 1.1 request. Pure C, no allocation.
 *
 * Read nb_head_read (last function) first: it cuts lines; request_line and field_line judge one
 * line each; finish judges what can only be known at the empty line.
 *
 * Read after: head.h, tables.h. Used by: server/connection.c.
 */
#include "head.h"
#include "tables.h"

#include <string.h>

enum { STAGE_BLANK, STAGE_REQUEST, STAGE_FIELDS, STAGE_DONE };

/* Longer than every method registered at IANA (the longest is UPDATEREDIRECTREF, 17 bytes). */
#define LONGEST_METHOD 32

typedef struct {
    const char *bytes; /* first byte of the head */
    const char *at;    /* first byte of the line */
    const char *end;   /* first byte after the line, without CR LF */
} line_t;

static inline unsigned char byte_at(const char *at)
{
    return (unsigned char)*at;
}

static inline int is_digit(const char *at)
{
    return (unsigned)byte_at(at) - '0' < 10u;
}

static inline int is_blank(const char *at)
{
    return *at == ' ' || *at == '\t';
}

/* Compares without case. text is lower case; both have size bytes. */
static int same_word(const char *at, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = byte_at(at + i);
        if ((unsigned)byte - 'A' < 26u)
            byte |= 0x20;
        if (byte != (unsigned char)text[i])
            return 0;
    }
    return 1;
}

static nb_span_t span_of(const line_t *line, const char *from, const char *to)
{
    return (nb_span_t){.at = (uint32_t)(from - line->bytes), .size = (uint32_t)(to - from)};
}

void nb_head_start(nb_head_t *head)
{
    memset(head, 0, sizeof(*head));
}

/* --- request line ------------------------------------------------------------------------ */

/* uri-host [":" port], RFC 3986 3.2.2. An empty host passes: the Host field may be empty. */
static int good_authority(const char *at, const char *end)
{
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close || close == at + 1)
            return 0;
        for (at++; at < close; at++)
            if (!nb_is_host[byte_at(at)] && *at != ':')
                return 0;
        at++;
    } else {
        while (at < end && nb_is_host[byte_at(at)])
            at++;
    }
    if (at < end && *at++ != ':')
        return 0;
    /* Six digits hold every port; the field could otherwise carry any number of zeros. */
    if (end - at > 6)
        return 0;
    while (at < end)
        if (!is_digit(at++))
            return 0;
    return 1;
}

/* Cuts "/path?query" at its question mark. */
static void split_path(nb_head_t *head, const line_t *line, const char *at, const char *end)
{
    const char *mark = memchr(at, '?', (size_t)(end - at));
    head->path = span_of(line, at, mark ? mark : end);
    head->query = mark ? span_of(line, mark + 1, end) : span_of(line, end, end);
}

/* "http://host:port/path?query": the only form whose authority beats the Host field. */
static int absolute_target(nb_head_t *head, const line_t *line, const char *at, const char *end)
{
    size_t size = (size_t)(end - at);
    if (size > 7 && same_word(at, "http://", 7)) {
        at += 7;
    } else if (size > 8 && same_word(at, "https://", 8)) {
        at += 8;
        head->flags |= NB_HEAD_HTTPS;
    } else {
        return NB_HEAD_BAD_TARGET;
    }
    const char *host = at;
    while (at < end && *at != '/' && *at != '?')
        at++;
    /* RFC 9110 4.2.1 and 4.2.4: no empty host, no user information ("@" is no host character). */
    if (at == host || *host == ':' || !good_authority(host, at))
        return NB_HEAD_BAD_TARGET;
    head->form = NB_TARGET_ABSOLUTE;
    head->host = span_of(line, host, at);
    split_path(head, line, at, end);
    return 0;
}

static int is_method(const nb_head_t *head, const line_t *line, const char *name)
{
    return head->method.size == strlen(name) &&
           memcmp(line->bytes + head->method.at, name, head->method.size) == 0;
}

static int read_target(nb_head_t *head, const line_t *line, const char *at, const char *end)
{
    int connect = is_method(head, line, "CONNECT");
    head->target = span_of(line, at, end);
    head->path = head->query = span_of(line, end, end);
    if (at == end)
        return NB_HEAD_BAD_TARGET;
    if (*at == '/' && !connect) {
        split_path(head, line, at, end);
        return 0;
    }
    if (*at == '*' && end - at == 1 && is_method(head, line, "OPTIONS")) {
        head->form = NB_TARGET_ASTERISK;
        head->path = head->target;
        return 0;
    }
    if (!connect)
        return absolute_target(head, line, at, end);
    /* RFC 9112 3.2.3: CONNECT names host and port, nothing else. */
    if (!good_authority(at, end) || *at == ':' || !is_digit(end - 1) || end[-1] == ']' ||
        !memchr(at, ':', (size_t)(end - at)))
        return NB_HEAD_BAD_TARGET;
    head->form = NB_TARGET_AUTHORITY;
    head->host = head->target;
    return 0;
}

static int read_version(nb_head_t *head, const char *at, const char *end)
{
    if (end - at != 8 || memcmp(at, "HTTP/", 5) != 0 || !is_digit(at + 5) || at[6] != '.' ||
        !is_digit(at + 7))
        return NB_HEAD_BAD_VERSION;
    if (at[5] != '1')
        return NB_HEAD_UNKNOWN_VERSION;
    head->minor = at[7] == '0' ? 0 : 1;
    return 0;
}

static int request_line(nb_head_t *head, const line_t *line)
{
    const char *at = line->at;
    while (at < line->end && nb_is_token[byte_at(at)])
        at++;
    head->method = span_of(line, line->at, at);
    if (at == line->at || at == line->end || *at != ' ')
        return NB_HEAD_BAD_METHOD;
    if (head->method.size > LONGEST_METHOD)
        return NB_HEAD_LONG_METHOD;
    const char *target = ++at;
    while (at < line->end && nb_is_target[byte_at(at)])
        at++;
    if (at == line->end)
        return NB_HEAD_BAD_VERSION; /* HTTP/0.9 has no version */
    if (*at != ' ')
        return NB_HEAD_BAD_TARGET;
    /* The version first: "PRI * HTTP/2.0" shall hear 505, not that its target is odd. */
    int error = read_version(head, at + 1, line->end);
    return error ? error : read_target(head, line, target, at);
}

/* --- field lines ------------------------------------------------------------------------- */

static unsigned known_field(const char *name, size_t size)
{
    if (size < 2)
        return NB_FIELD_UNKNOWN;
    unsigned known =
        nb_field_slots[NB_FIELD_SLOT((unsigned)size, byte_at(name), byte_at(name + size / 2),
                                     byte_at(name + size - 2), byte_at(name + size - 1))];
    const struct nb_field_name *entry = &nb_field_names[known];
    if (entry->size != size || !known)
        return NB_FIELD_UNKNOWN;
    for (size_t i = 0; i < size; i++) {
        /* Both are tokens: in those, bytes that differ only in bit 5 are letters, or "^" and "~",
         * and no known name has "~". */
        if (((unsigned char)entry->name[i] ^ byte_at(name + i)) & ~0x20u)
            return NB_FIELD_UNKNOWN;
    }
    return known;
}

/* The first byte of at…end that may not stand in a field value, or end. Eight bytes a step: a
 * control byte is the only one below 0x20 (tab is let through one by one), DEL the only 0x7f. */
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
                break; /* maybe a false alarm in a byte after the first: looked at singly below */
            at += 8;
        }
        const char *stop = end - at >= 8 ? at + 8 : end;
        for (; at < stop; at++)
            if ((byte_at(at) < 0x20 && *at != '\t') || byte_at(at) == 0x7f)
                return at;
        if (at == end)
            return end;
    }
}

int nb_head_read_field(const char *line, size_t size, nb_field_t *field)
{
    const char *at = line, *end = line + size;
    if (size && is_blank(line))
        return NB_HEAD_FOLDED;
    while (at < end && nb_is_token[byte_at(at)])
        at++;
    size_t name_size = (size_t)(at - line);
    if (!name_size || name_size > UINT16_MAX || at == end || *at != ':')
        return NB_HEAD_BAD_NAME;
    for (at++; at < end && is_blank(at);)
        at++;
    if (value_end(at, end) != end)
        return NB_HEAD_BAD_VALUE;
    while (end > at && is_blank(end - 1))
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

/* Cuts the next element out of a comma list; empty elements are skipped. Returns 0 at the end. */
static int next_element(const char **at, const char *end, const char **element, size_t *size)
{
    while (*at < end && (is_blank(*at) || **at == ','))
        (*at)++;
    if (*at == end)
        return 0;
    *element = *at;
    while (*at < end && **at != ',')
        (*at)++;
    const char *last = *at;
    while (last > *element && is_blank(last - 1))
        last--;
    *size = (size_t)(last - *element);
    return 1;
}

static void read_connection(nb_head_t *head, const char *at, const char *end)
{
    const char *element;
    size_t size;
    while (next_element(&at, end, &element, &size)) {
        if (size == 5 && same_word(element, "close", 5))
            head->flags |= NB_HEAD_SAW_CLOSE;
        else if (size == 10 && same_word(element, "keep-alive", 10))
            head->flags |= NB_HEAD_SAW_KEEP_ALIVE;
        else if (size == 7 && same_word(element, "upgrade", 7))
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
        if (!is_digit(at))
            return NB_HEAD_BAD_LENGTH;
        if (value > (uint64_t)(INT64_MAX - 9) / 10)
            huge = 1; /* reported only if every byte is a digit */
        else
            value = value * 10 + (byte_at(at) - '0');
    }
    head->content_length = value;
    return huge ? NB_HEAD_HUGE_LENGTH : 0;
}

/* RFC 9112 6.1: chunked once, and last. Anything before it is a coding we do not have. */
static int read_coding(nb_head_t *head, const char *at, const char *end)
{
    const char *element;
    size_t size;
    head->flags |= NB_HEAD_SAW_CODING;
    while (next_element(&at, end, &element, &size)) {
        if (head->flags & NB_HEAD_CHUNKED)
            return NB_HEAD_BAD_CODING;
        if (size == 7 && same_word(element, "chunked", 7))
            head->flags |= NB_HEAD_CHUNKED;
        else
            head->flags |= NB_HEAD_SAW_OTHER_CODING;
    }
    return 0;
}

static int read_host(nb_head_t *head, const line_t *line, const char *at, const char *end)
{
    if (head->flags & NB_HEAD_SAW_HOST)
        return NB_HEAD_TWO_HOSTS;
    head->flags |= NB_HEAD_SAW_HOST;
    if (!good_authority(at, end) || (at < end && *at == ':'))
        return NB_HEAD_BAD_HOST;
    if (head->form == NB_TARGET_ORIGIN || head->form == NB_TARGET_ASTERISK)
        head->host = span_of(line, at, end);
    return 0;
}

/* What one field means for framing and connection; every other field is the application's. */
static int field_line(nb_head_t *head, const line_t *line, nb_field_t *field)
{
    int error = nb_head_read_field(line->at, (size_t)(line->end - line->at), field);
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
        return read_length(head, value, end);
    case NB_FIELD_TRANSFER_ENCODING:
        return read_coding(head, value, end);
    case NB_FIELD_CONNECTION:
        read_connection(head, value, end);
        return 0;
    case NB_FIELD_UPGRADE:
        head->flags |= NB_HEAD_SAW_UPGRADE;
        return 0;
    case NB_FIELD_EXPECT:
        if (field->value_size != 12 || !same_word(value, "100-continue", 12))
            return NB_HEAD_BAD_EXPECT;
        head->flags |= NB_HEAD_EXPECT_CONTINUE;
        return 0;
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

/* Judges one complete line. Returns NB_HEAD_MORE to go on with the next. */
static int whole_line(nb_head_t *head, const line_t *line, nb_field_t *fields, size_t capacity,
                      const nb_head_limits_t *limits)
{
    int error;
    if (head->stage < STAGE_FIELDS) {
        /* RFC 9112 2.2: one empty line before the request is forgiven. */
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

/* The line is not complete: may it ever become one we take? */
static int part_of_line(const nb_head_t *head, const char *bytes, size_t size,
                        const nb_head_limits_t *limits)
{
    if (head->stage < STAGE_FIELDS && size > head->line) {
        unsigned char first = byte_at(bytes + head->line);
        if (!nb_is_token[first] && !(first == '\r' && head->stage == STAGE_BLANK))
            return NB_HEAD_BAD_METHOD; /* TLS to a plain port ends here, at its first byte */
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
