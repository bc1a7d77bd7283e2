/* delayd_request.c - reads an HTTP/1.x request head line by line. Pure C.
 *
 * A head that arrives in pieces is read again from its start each time. It has 8 KB at most, and
 * nearly every request comes in one piece: to keep a position is not worth the lines.
 */
#include "delayd_request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* A part of the head: a line, then smaller and smaller parts of it. */
typedef struct {
    const char *at, *end;
} span_t;

static ssize_t refuse(nb_delayd_request_t *request, const char *problem)
{
    request->problem = problem;
    return -EBADMSG;
}

/* The characters of a method and of a field name (RFC 9110, 5.6.2). */
static bool is_token(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

/* Cuts off the part before the separator. False if there is no separator. */
static bool cut(span_t *rest, char separator, span_t *part)
{
    const char *found = memchr(rest->at, separator, (size_t)(rest->end - rest->at));
    if (found == NULL)
        return false;
    *part = (span_t){rest->at, found};
    rest->at = found + 1;
    return true;
}

static bool equals(span_t span, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(span.end - span.at) == length && strncasecmp(span.at, word, length) == 0;
}

static bool all_tokens(span_t span)
{
    for (const char *p = span.at; p < span.end; p++)
        if (!is_token((unsigned char)*p))
            return false;
    return span.at < span.end;
}

/* Digits only, up to the limit. */
static bool read_whole(span_t span, uint64_t limit, uint64_t *number)
{
    uint64_t value = 0;
    if (span.at == span.end)
        return false;
    for (const char *p = span.at; p < span.end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        value = value * 10 + (uint64_t)(*p - '0');
        if (value > limit)
            return false;
    }
    *number = value;
    return true;
}

/* Milliseconds, such as 250 or 28.6. Digits beyond the nanosecond are dropped. */
static bool read_ms(span_t span, uint64_t *ns)
{
    span_t whole = span;
    uint64_t ms, unit = 1000000, value;
    bool fraction = cut(&span, '.', &whole);
    if (!read_whole(whole, NB_DELAYD_DELAY_MS_MAX, &ms) || (fraction && span.at == span.end))
        return false;
    value = ms * unit;
    for (const char *p = span.at; fraction && p < span.end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        unit /= 10;
        value += unit * (uint64_t)(*p - '0');
    }
    *ns = value;
    return true;
}

/* ms= and bytes= are ours. Other parameters are ignored, so that a client may add what it likes. */
static ssize_t read_query(nb_delayd_request_t *request, span_t query)
{
    while (query.at < query.end) {
        span_t pair, name;
        if (!cut(&query, '&', &pair)) {
            pair = query;
            query.at = query.end;
        }
        if (!cut(&pair, '=', &name))
            continue;
        if (equals(name, "ms") && !read_ms(pair, &request->delay_ns))
            return refuse(request,
                          "ms= takes milliseconds from 0 to 86400000, such as 250 or 28.6");
        if (equals(name, "bytes") &&
            !read_whole(pair, NB_DELAYD_BODY_BYTES_MAX, &request->body_bytes))
            return refuse(request, "bytes= takes a whole number from 0 to 1000000000000");
    }
    return 0;
}

static ssize_t read_request_line(nb_delayd_request_t *request, span_t line)
{
    span_t method, target, path;
    if (!cut(&line, ' ', &method) || !all_tokens(method))
        return refuse(request, "the request does not begin with a method");
    if (!cut(&line, ' ', &target) || target.at == target.end)
        return refuse(request, "the request line has no target");
    for (const char *p = target.at; p < target.end; p++)
        if ((unsigned char)*p <= ' ' || *p == 127)
            return refuse(request, "the target holds a control character");
    if (!equals(line, "HTTP/1.1") && !equals(line, "HTTP/1.0"))
        return refuse(request, "the version is neither HTTP/1.1 nor HTTP/1.0");
    request->http10 = line.end[-1] == '0';
    request->keep_alive = !request->http10;
    request->head_only = equals(method, "HEAD");
    return cut(&target, '?', &path) ? read_query(request, target) : 0;
}

/* Connection: may list several words. Only two of them matter here, and close wins. */
static void read_connection(nb_delayd_request_t *request, span_t value)
{
    bool close = false, keep = false;
    while (value.at < value.end) {
        span_t word;
        if (!cut(&value, ',', &word)) {
            word = value;
            value.at = value.end;
        }
        while (word.at < word.end && (*word.at == ' ' || *word.at == '\t'))
            word.at++;
        while (word.at < word.end && (word.end[-1] == ' ' || word.end[-1] == '\t'))
            word.end--;
        close = close || equals(word, "close");
        keep = keep || equals(word, "keep-alive");
    }
    if (close)
        request->keep_alive = false;
    else if (keep && request->http10)
        request->keep_alive = true;
}

static ssize_t read_length(nb_delayd_request_t *request, span_t value, bool *seen)
{
    uint64_t length;
    if (!read_whole(value, NB_DELAYD_CONTENT_BYTES_MAX, &length))
        return refuse(request, "Content-Length takes a whole number from 0 to 1000000000000");
    if (*seen && length != request->content_bytes)
        return refuse(request, "two Content-Length fields differ");
    *seen = true;
    request->content_bytes = length;
    return 0;
}

static ssize_t read_field(nb_delayd_request_t *request, span_t line, bool *length_seen)
{
    span_t name;
    if (!cut(&line, ':', &name) || !all_tokens(name))
        return refuse(request, "a header line does not begin with a name and a colon");
    for (const char *p = line.at; p < line.end; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 127)
            return refuse(request, "a header value holds a control character");
    while (line.at < line.end && (*line.at == ' ' || *line.at == '\t'))
        line.at++;
    while (line.at < line.end && (line.end[-1] == ' ' || line.end[-1] == '\t'))
        line.end--;
    if (equals(name, "connection"))
        read_connection(request, line);
    else if (equals(name, "content-length"))
        return read_length(request, line, length_seen);
    else if (equals(name, "transfer-encoding"))
        return refuse(request, "Transfer-Encoding is not understood here: send a Content-Length");
    return 0;
}

ssize_t nb_delayd_request_parse(nb_delayd_request_t *request, const char *bytes, size_t count)
{
    size_t window = count < NB_DELAYD_HEAD_BYTES_MAX ? count : NB_DELAYD_HEAD_BYTES_MAX;
    span_t rest = {bytes, bytes + window}, line;
    bool first = true, length_seen = false;
    ssize_t error = 0;

    request->content_bytes = 0;
    request->problem = NULL;
    while (cut(&rest, '\n', &line)) {
        if (line.end == line.at || line.end[-1] != '\r')
            return refuse(request, "a line ends without a carriage return");
        line.end--;
        if (line.at == line.end) {
            if (!first)
                return rest.at - bytes;
            continue; /* RFC 9112, 2.2: an empty line before a request is to be ignored */
        }
        error = first ? read_request_line(request, line) : read_field(request, line, &length_seen);
        if (error != 0)
            return error;
        first = false;
    }
    if (window == NB_DELAYD_HEAD_BYTES_MAX)
        return refuse(request, "the head is longer than 8192 bytes");
    if (first && rest.at < rest.end && *rest.at != '\r' && !is_token((unsigned char)*rest.at))
        return refuse(request, "the request does not begin with a method");
    return 0;
}
