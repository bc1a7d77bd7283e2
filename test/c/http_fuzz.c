/* http_fuzz.c - libFuzzer target for head.c and chunked.c. The first byte says where the input is
 * cut; both ways of reading must agree, every span must lie inside, nothing may be over-read.
 *
 * Run: clang -g -O1 -fsanitize=fuzzer,address,undefined -o fuzz test/c/http_fuzz.c
 *      ext/neverblock/http/{head,target,field,chunked}.c &&
 *      ./fuzz -max_total_time=60 test/c/corpus/http
 */
#include "../../ext/neverblock/http/head.h"
#include "../../ext/neverblock/http/chunked.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS 16

static const nb_head_limits_t LIMITS = {.line_bytes = 512, .head_bytes = 2048, .field_count = 12};

static void must(int ok)
{
    if (!ok)
        abort();
}

/* A copy of exactly size bytes, so that ASan sees the first byte beyond. */
static char *exact(const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    return copy;
}

static int read_prefix(nb_head_t *head, nb_field_t *fields, const char *bytes, size_t size)
{
    char *copy = exact(bytes, size);
    int result = nb_head_read(head, copy, size, fields, FIELDS, &LIMITS);
    free(copy);
    return result;
}

static void inside(nb_span_t span, uint32_t size)
{
    must(span.at <= size && span.size <= size - span.at);
}

static void check_head(const nb_head_t *head, const nb_field_t *fields, const char *bytes,
                       size_t size)
{
    must(head->size <= size && head->size <= LIMITS.head_bytes);
    must(memcmp(bytes + head->size - 4, "\r\n\r\n", 4) == 0);
    must(!(head->flags & NB_HEAD_CHUNKED && head->flags & NB_HEAD_HAS_LENGTH));
    inside(head->method, head->size);
    inside(head->target, head->size);
    inside(head->path, head->size);
    inside(head->query, head->size);
    inside(head->host, head->size);
    must(head->field_count <= LIMITS.field_count);
    for (uint32_t i = 0; i < head->field_count; i++) {
        inside((nb_span_t){fields[i].name, fields[i].name_size}, head->size);
        inside((nb_span_t){fields[i].value, fields[i].value_size}, head->size);
        must(!memchr(bytes + fields[i].value, '\n', fields[i].value_size));
    }
}

/* Decodes in steps of `step` bytes; returns the result and how much data and input there was. */
static int decode(const char *bytes, size_t size, size_t step, size_t *data, size_t *used)
{
    nb_chunked_t chunked;
    nb_piece_t piece = {0};
    int result = NB_CHUNKED_MORE;
    nb_chunked_start(&chunked);
    for (*data = *used = 0; *used < size && result == NB_CHUNKED_MORE;) {
        size_t count = size - *used < step ? size - *used : step;
        char *copy = exact(bytes + *used, count), *at = copy;
        while ((result = nb_chunked_read(&chunked, at, count, &piece)) == NB_CHUNKED_DATA) {
            must(piece.at + piece.size == piece.used && piece.used <= count);
            *data += piece.size;
            *used += piece.used;
            at += piece.used;
            count -= piece.used;
        }
        *used += piece.used;
        free(copy);
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 2 || size > 4096)
        return 0;
    const char *bytes = (const char *)input + 1;
    size_t cut = input[0] % size--;
    nb_head_t whole, parts;
    nb_field_t whole_fields[FIELDS], parts_fields[FIELDS];
    nb_head_start(&whole);
    nb_head_start(&parts);
    int result = read_prefix(&whole, whole_fields, bytes, size);
    int other = read_prefix(&parts, parts_fields, bytes, cut);
    if (other == NB_HEAD_MORE)
        other = read_prefix(&parts, parts_fields, bytes, size);
    /* Both refuse, but what a cut shows first may be another fault of the same line. */
    must(result == other || (result < 0 && other < 0));
    if (result == NB_HEAD_DONE) {
        must(memcmp(&whole, &parts, sizeof(whole)) == 0);
        check_head(&whole, whole_fields, bytes, size);
        bytes += whole.size;
        size -= whole.size;
    }
    size_t data, used, part_data, part_used;
    result = decode(bytes, size, size + 1, &data, &used);
    other = decode(bytes, size, (size_t)input[0] % 7 + 1, &part_data, &part_used);
    must(result == other && data == part_data && used == part_used);
    return 0;
}
