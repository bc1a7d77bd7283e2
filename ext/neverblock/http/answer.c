/* answer.c - reads the head of one HTTP response. Pure C, no allocation. Read after: answer.h. */
#include "answer.h"

#include <string.h>

#define CODE_DIGITS 3

/* The line at `at` without its end. Returns 0 if the end is missing or is not CR LF. */
static const char *line_end(const char *at, const char *end)
{
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    return feed && feed > at && feed[-1] == '\r' ? feed - 1 : NULL;
}

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && nb_is_digit(at))
        at++;
    return at;
}

static int is_plain(const char *at, const char *end)
{
    for (; at < end; at++)
        if (nb_byte_at(at) < ' ' || nb_byte_at(at) == 0x7f)
            return 0;
    return 1;
}

/* "HTTP/1.1 200 OK" */
static int status_line(nb_answer_t *answer, const char *bytes, const char *end)
{
    if (end - bytes < 5 || memcmp(bytes, "HTTP/", 5) != 0)
        return 0;
    const char *version = bytes + 5, *dot = skip_digits(version, end);
    if (dot == version || dot == end || *dot != '.')
        return 0;
    const char *blank = skip_digits(dot + 1, end);
    if (blank == dot + 1 || blank == end || *blank != ' ')
        return 0;
    const char *code = blank + 1, *after = skip_digits(code, end);
    if (after - code != CODE_DIGITS || (after < end && *after != ' '))
        return 0;
    const char *message = after < end ? after + 1 : end;
    if ((message < end && *message == ' ') || !is_plain(message, end))
        return 0;
    answer->version = nb_span_of(bytes, version, blank);
    answer->code = nb_span_of(bytes, code, after);
    answer->message = nb_span_of(bytes, message, end);
    answer->has_message = after < end;
    return 1;
}

int nb_answer_read(nb_answer_t *answer, const char *bytes, size_t size, nb_field_t *fields,
                   size_t capacity)
{
    const char *end = bytes + size, *at = bytes, *stop = line_end(at, end);
    if (size > UINT32_MAX || !stop || !status_line(answer, bytes, stop))
        return 0;
    for (uint32_t count = 0;; count++) {
        at = stop + 2;
        stop = line_end(at, end);
        if (!stop)
            return 0;
        if (stop == at) {
            answer->field_count = count;
            answer->size = (uint32_t)(stop + 2 - bytes);
            return 1;
        }
        if (count == capacity || nb_field_read(at, (size_t)(stop - at), &fields[count]) < 0)
            return 0;
        fields[count].name = (uint32_t)(at - bytes);
        fields[count].value += (uint32_t)(at - bytes);
    }
}
