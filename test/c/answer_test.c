/* answer_test.c - heads of responses: which are plain, what is in them, and no byte too many. */
#include "http/answer.h"
#include "test.h"

#define CAPACITY 4

static nb_answer_t answer;
static nb_field_t fields[CAPACITY];

/* In memory of just that size: ASan sees the first byte read beyond. */
static int read_part(const char *text, size_t size)
{
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, text, size);
    int result = nb_answer_read(&answer, bytes, size, fields, CAPACITY);
    free(bytes);
    return result;
}

static int is_plain(const char *text)
{
    return read_part(text, strlen(text));
}

static bool is_span(const char *text, nb_span_t span, const char *wanted)
{
    return span.size == strlen(wanted) && !memcmp(text + span.at, wanted, span.size);
}

static const char whole[] = "HTTP/1.1 404 Not Found\r\nA: b \r\nSet-Cookie:\tc: d\r\n\r\n";

static void a_plain_head_has_all_its_parts(void)
{
    char text[sizeof(whole) + 4];
    snprintf(text, sizeof(text), "%sbody", whole);
    CHECK(is_plain(text));
    CHECK_EQ(sizeof(whole) - 1, answer.size);
    CHECK(is_span(text, answer.version, "1.1"));
    CHECK(is_span(text, answer.code, "404"));
    CHECK(answer.has_message && is_span(text, answer.message, "Not Found"));
    CHECK_EQ(2, answer.field_count);
    nb_span_t value = {.at = fields[1].value, .size = fields[1].value_size};
    nb_span_t name = {.at = fields[1].name, .size = fields[1].name_size};
    CHECK(is_span(text, value, "c: d"));
    CHECK(is_span(text, name, "Set-Cookie"));
}

static void no_part_of_a_head_is_a_head(void)
{
    for (size_t size = 0; size < sizeof(whole) - 1; size++)
        CHECK(!read_part(whole, size));
}

static void a_message_may_be_empty_or_missing(void)
{
    CHECK(is_plain("HTTP/1.1 200 \r\n\r\n") && answer.has_message && !answer.message.size);
    CHECK(is_plain("HTTP/1.1 200\r\n\r\n") && !answer.has_message);
}

static void what_is_odd_is_not_plain(void)
{
    static const char *const odd[] = {
        "\r\n\r\n",
        "HTTP/\r\n\r\n",
        "HTTP/1.\r\n\r\n",
        "HTTP/1 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200OK\r\n\r\n",
        "HTTP/1.1 200  OK\r\n\r\n",
        "HTTP/1.1 200 O\tK\r\n\r\n",
        "HTTP/1.1 200 OK\n\r\n",
        "HTTP/1.1 200 OK\r\n\n",
        "HTTP/1.1 200 OK\r\n a: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\na\r\n\r\n",
        "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\na:1\r\nb:2\r\nc:3\r\nd:4\r\ne:5\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
        CHECK(!is_plain(odd[i]));
    CHECK(is_plain("HTTP/1.1 200 OK\r\na:1\r\nb:2\r\nc:3\r\nd:4\r\n\r\n"));
}

int main(void)
{
    RUN(a_plain_head_has_all_its_parts);
    RUN(no_part_of_a_head_is_a_head);
    RUN(a_message_may_be_empty_or_missing);
    RUN(what_is_odd_is_not_plain);
    return test_report();
}
