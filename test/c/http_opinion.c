/* http_opinion.c - says what head.c and chunked.c make of a message: the door through which
 * test/differential compares them with other parsers. Pure C.
 *
 * stdin: messages, each behind its size (4 bytes, this machine's order), 0 means flush. stdout, for
 * each: the size of the answer, then lines:
 *
 *     refuse NAME | more | accept or body MINOR KEEP FRAMING SIZE-OF-MESSAGE SIZE-OF-BODY
 *     and after accept and body (the head is good, the body not all there): method, target, host,
 *     name and value of each field, an empty line, body
 *
 * Run: rake fuzz:differential compiles it under ASan and UBSan.
 */
#include "../../ext/neverblock/http/chunked.h"
#include "../../ext/neverblock/http/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 128
#define LARGEST (1 << 20)

static const nb_head_limits_t LIMITS = {
    .line_bytes = 65536, .head_bytes = 1 << 19, .field_count = FIELDS};

static char answer[4 * LARGEST], body[LARGEST];
static size_t used;

static void put(const char *bytes, size_t size)
{
    if (used + size + 1 > sizeof(answer))
        abort();
    memcpy(answer + used, bytes, size);
    used += size;
}

static void put_line(const char *bytes, size_t size)
{
    put(bytes, size);
    put("\n", 1);
}

static const char *name_of(int error)
{
    switch (error) {
#define X(name, status, text)                                                                      \
    case NB_HEAD_##name:                                                                           \
        return #name;
        NB_HEAD_ERRORS(X)
#undef X
#define X(name, status, text)                                                                      \
    case NB_CHUNKED_##name:                                                                        \
        return "CHUNK_" #name;
        NB_CHUNKED_ERRORS(X)
#undef X
    default:
        abort();
    }
}

static void refuse(int error)
{
    char line[64];
    put(line, (size_t)snprintf(line, sizeof(line), "refuse %s\n", name_of(error)));
}

/* Takes the body out of bytes. Returns DONE, MORE or an error. */
static int read_body(const nb_head_t *head, const char *bytes, size_t size, size_t *taken,
                     size_t *data)
{
    nb_chunked_t chunked;
    nb_piece_t piece;
    int result;
    *taken = *data = 0;
    if (!(head->flags & NB_HEAD_CHUNKED)) {
        if (head->content_length > size)
            return NB_CHUNKED_MORE;
        *taken = *data = (size_t)head->content_length;
        memcpy(body, bytes, *data);
        return NB_CHUNKED_DONE;
    }
    nb_chunked_start(&chunked);
    while ((result = nb_chunked_read(&chunked, bytes, size - *taken, &piece)) == NB_CHUNKED_DATA) {
        memcpy(body + *data, bytes + piece.at, piece.size);
        *data += piece.size;
        *taken += piece.used;
        bytes += piece.used;
    }
    *taken += piece.used;
    return result;
}

static void accept(const nb_head_t *head, const nb_field_t *fields, const char *bytes, size_t size)
{
    char line[128];
    size_t taken, data;
    int result = read_body(head, bytes + head->size, size - head->size, &taken, &data);
    if (result < 0)
        return refuse(result);
    const char *framing = head->flags & NB_HEAD_CHUNKED      ? "chunked"
                          : head->flags & NB_HEAD_HAS_LENGTH ? "length"
                                                             : "none";
    put_line(line, (size_t)snprintf(line, sizeof(line), "%s %d %d %s %zu %zu",
                                    result == NB_CHUNKED_MORE ? "body" : "accept", head->minor,
                                    (head->flags & NB_HEAD_KEEP_ALIVE) != 0, framing,
                                    head->size + taken, data));
    put_line(bytes + head->method.at, head->method.size);
    put_line(bytes + head->target.at, head->target.size);
    put_line(bytes + head->host.at, head->host.size);
    for (uint32_t i = 0; i < head->field_count; i++) {
        put_line(bytes + fields[i].name, fields[i].name_size);
        put_line(bytes + fields[i].value, fields[i].value_size);
    }
    put_line("", 0);
    put(body, data);
}

static void judge(const char *bytes, size_t size)
{
    static nb_field_t fields[FIELDS];
    nb_head_t head;
    nb_head_start(&head);
    int result = nb_head_read(&head, bytes, size, fields, FIELDS, &LIMITS);
    used = 0;
    if (result == NB_HEAD_DONE)
        accept(&head, fields, bytes, size);
    else if (result == NB_HEAD_MORE)
        put_line("more", 4);
    else
        refuse(result);
}

int main(void)
{
    uint32_t size;
    while (fread(&size, sizeof(size), 1, stdin) == 1) {
        if (!size) {
            fflush(stdout);
            continue;
        }
        if (size > LARGEST)
            abort();
        char *bytes = malloc(size); /* exactly: ASan sees the first byte beyond */
        if (fread(bytes, size, 1, stdin) != 1)
            abort();
        judge(bytes, size);
        free(bytes);
        size = (uint32_t)used;
        fwrite(&size, sizeof(size), 1, stdout);
        fwrite(answer, used, 1, stdout);
    }
    return 0;
}
