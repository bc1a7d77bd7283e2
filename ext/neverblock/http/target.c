/* target.c - the target of a request line, RFC 9112 3.2. Pure C, no allocation.
 *
 * Read after: target.h, tables.h.
 */
#include "target.h"
#include "bytes.h"
#include "tables.h"

#include <string.h>

int nb_target_good_authority(const char *at, const char *end)
{
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close || close == at + 1)
            return 0;
        for (at++; at < close; at++)
            if (!nb_is_host[nb_byte_at(at)] && *at != ':')
                return 0;
        at++;
    } else {
        while (at < end && nb_is_host[nb_byte_at(at)])
            at++;
    }
    if (at < end && *at++ != ':')
        return 0;
    /* Six digits are enough for any port; without a limit, any number of zeros would pass. */
    if (end - at > 6)
        return 0;
    while (at < end)
        if (!nb_is_digit(at++))
            return 0;
    return 1;
}

/* Cuts "/path?query" at its question mark. */
static void split_path(nb_head_t *head, const char *bytes, const char *at, const char *end)
{
    const char *mark = memchr(at, '?', (size_t)(end - at));
    head->path = nb_span_of(bytes, at, mark ? mark : end);
    head->query = mark ? nb_span_of(bytes, mark + 1, end) : nb_span_of(bytes, end, end);
}

/* "http://host:port/path?query": the only form whose authority overrides the Host field. */
static int absolute_target(nb_head_t *head, const char *bytes, const char *at, const char *end)
{
    size_t size = (size_t)(end - at);
    if (size > 7 && nb_same_word(at, "http://", 7)) {
        at += 7;
    } else if (size > 8 && nb_same_word(at, "https://", 8)) {
        at += 8;
        head->flags |= NB_HEAD_HTTPS;
    } else {
        return NB_HEAD_BAD_TARGET;
    }
    const char *host = at;
    while (at < end && *at != '/' && *at != '?')
        at++;
    /* RFC 9110 4.2.1 and 4.2.4: no empty host, no user information ("@" is no host character). */
    if (at == host || *host == ':' || !nb_target_good_authority(host, at))
        return NB_HEAD_BAD_TARGET;
    head->form = NB_TARGET_ABSOLUTE;
    head->host = nb_span_of(bytes, host, at);
    split_path(head, bytes, at, end);
    return 0;
}

static int is_method(const nb_head_t *head, const char *bytes, const char *name)
{
    return head->method.size == strlen(name) &&
           memcmp(bytes + head->method.at, name, head->method.size) == 0;
}

int nb_target_read(nb_head_t *head, const char *bytes, const char *at, const char *end)
{
    int connect = is_method(head, bytes, "CONNECT");
    head->target = nb_span_of(bytes, at, end);
    head->path = head->query = nb_span_of(bytes, end, end);
    if (at == end)
        return NB_HEAD_BAD_TARGET;
    if (*at == '/' && !connect) {
        split_path(head, bytes, at, end);
        return 0;
    }
    if (*at == '*' && end - at == 1 && is_method(head, bytes, "OPTIONS")) {
        head->form = NB_TARGET_ASTERISK;
        head->path = head->target;
        return 0;
    }
    if (!connect)
        return absolute_target(head, bytes, at, end);
    /* RFC 9112 3.2.3: CONNECT names host and port, nothing else. */
    if (!nb_target_good_authority(at, end) || *at == ':' || !nb_is_digit(end - 1) ||
        end[-1] == ']' || !memchr(at, ':', (size_t)(end - at)))
        return NB_HEAD_BAD_TARGET;
    head->form = NB_TARGET_AUTHORITY;
    head->host = head->target;
    return 0;
}
