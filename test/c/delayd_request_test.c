/* delayd_request_test.c - every head lies against unreadable memory.
 */
#include "delayd/delayd_request.h"
#include "test.h"

#include <errno.h>

static nb_delayd_request_t request;

static ssize_t parse_bytes(const char *bytes, size_t count)
{
    guarded_t copy = guard(bytes, count);
    request = (nb_delayd_request_t){.delay_ns = 7, .body_bytes = 4};
    ssize_t result = nb_delayd_request_parse(&request, copy.bytes, count);
    unguard(copy);
    return result;
}

static ssize_t parse(const char *head)
{
    return parse_bytes(head, strlen(head));
}

static void a_plain_request_takes_the_defaults(void)
{
    const char *head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    CHECK_EQ(strlen(head), parse(head));
    CHECK_EQ(7, request.delay_ns);
    CHECK_EQ(4, request.body_bytes);
    CHECK_EQ(0, request.content_bytes);
    CHECK(request.keep_alive && !request.http10 && !request.head_only);
}

static void the_length_ends_at_the_head(void)
{
    CHECK_EQ(18, parse("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
    CHECK_EQ(22, parse("\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
}

static void every_prefix_of_a_good_head_asks_for_more(void)
{
    const char *head =
        "\r\nHEAD /a?ms=12.5&x&bytes=9&y=1 HTTP/1.0\r\nConnection: Keep-Alive , x\r\n"
        "Content-Length: 12 \r\nEmpty:\r\n\r\n";
    for (size_t i = 0; i < strlen(head); i++)
        CHECK_EQ(0, parse_bytes(head, i));
    CHECK_EQ(strlen(head), parse(head));
    CHECK_EQ(12500000, request.delay_ns);
    CHECK_EQ(9, request.body_bytes);
    CHECK_EQ(12, request.content_bytes);
    CHECK(request.keep_alive && request.http10 && request.head_only);
}

static uint64_t delay_of(const char *ms)
{
    char head[128];
    snprintf(head, sizeof(head), "GET /?ms=%s HTTP/1.1\r\n\r\n", ms);
    return parse(head) > 0 ? request.delay_ns : UINT64_MAX;
}

static void milliseconds_may_have_a_fraction(void)
{
    CHECK_EQ(0, delay_of("0"));
    CHECK_EQ(250000000, delay_of("250"));
    CHECK_EQ(28600000, delay_of("28.6"));
    CHECK_EQ(1, delay_of("0.000001"));
    CHECK_EQ(1234567, delay_of("1.2345678999999"));
    CHECK_EQ(86400000000000, delay_of("86400000"));
    const char *bad[] = {"",
                         ".5",
                         "5.",
                         "-1",
                         "+1",
                         "1e3",
                         " 1",
                         "86400001",
                         "1.2.3",
                         "nan",
                         "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_EQ(-1, delay_of(bad[i]));
}

static bool keeps_alive(const char *version, const char *field)
{
    char head[128];
    snprintf(head, sizeof(head), "GET / HTTP/%s\r\n%s\r\n", version, field);
    CHECK(parse(head) > 0);
    return request.keep_alive;
}

static void connection_follows_the_version(void)
{
    CHECK(keeps_alive("1.1", ""));
    CHECK(!keeps_alive("1.1", "Connection: close\r\n"));
    CHECK(!keeps_alive("1.1", "connection:\tTE,  CLOSE \r\n"));
    CHECK(!keeps_alive("1.1", "Connection: keep-alive, close\r\n"));
    CHECK(keeps_alive("1.1", "Connection: closed\r\n"));
    CHECK(!keeps_alive("1.0", ""));
    CHECK(keeps_alive("1.0", "Connection: keep-alive\r\n"));
}

static void bad_heads_are_refused_with_a_reason(void)
{
    static const char *bad[] = {
        "\x16\x03\x01", /* TLS */
        " GET / HTTP/1.1\r\n\r\n",
        "G\xc3\x84T / HTTP/1.1\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.2\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / http/1.1x\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n",
        "GET / / HTTP/1.1\r\n\r\n",
        "GET /?ms=x HTTP/1.1\r\n\r\n",
        "GET /?bytes=-1 HTTP/1.1\r\n\r\n",
        "GET /?bytes=1000000000001 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nA : x\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\ry\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\x7f\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (parse(bad[i]) != -EBADMSG || !request.problem)
            fprintf(stderr, "not refused: %s\n", bad[i]);
        CHECK(parse(bad[i]) == -EBADMSG && request.problem);
    }
    CHECK_EQ(-EBADMSG, parse_bytes("GET / HTTP/1.1\r\nA: \0\r\n", 22));
}

static void a_head_may_be_8192_bytes_and_no_more(void)
{
    char head[NB_DELAYD_HEAD_BYTES_MAX + 1];
    const char *start = "GET / HTTP/1.1\r\nA: ";
    memset(head, 'a', sizeof(head));
    memcpy(head, start, strlen(start));
    memcpy(head + NB_DELAYD_HEAD_BYTES_MAX - 4, "\r\n\r\n", 4);
    CHECK_EQ(NB_DELAYD_HEAD_BYTES_MAX, parse_bytes(head, NB_DELAYD_HEAD_BYTES_MAX));
    CHECK_EQ(0, parse_bytes(head, NB_DELAYD_HEAD_BYTES_MAX - 1));
    memcpy(head + NB_DELAYD_HEAD_BYTES_MAX - 4, "a\r\n\r\n", 5);
    CHECK_EQ(-EBADMSG, parse_bytes(head, sizeof(head)));
    CHECK_EQ(-EBADMSG, parse_bytes(head, sizeof(head) - 1));
}

/* Whatever comes in, the answer is one of the three, and a length lies within the bytes. */
static void broken_bytes_never_lead_astray(void)
{
    const char *head = "GET /?ms=10&bytes=20 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    size_t length = strlen(head);
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        char bytes[128];
        memcpy(bytes, head, length);
        for (int k = rand_r(&seed) % 4; k >= 0; k--)
            bytes[(size_t)rand_r(&seed) % length] = (char)rand_r(&seed);
        size_t count = (size_t)rand_r(&seed) % (length + 1);
        ssize_t result = parse_bytes(bytes, count);
        CHECK(result == -EBADMSG || (result >= 0 && (size_t)result <= count));
    }
}

int main(void)
{
    RUN(a_plain_request_takes_the_defaults);
    RUN(the_length_ends_at_the_head);
    RUN(every_prefix_of_a_good_head_asks_for_more);
    RUN(milliseconds_may_have_a_fraction);
    RUN(connection_follows_the_version);
    RUN(bad_heads_are_refused_with_a_reason);
    RUN(a_head_may_be_8192_bytes_and_no_more);
    RUN(broken_bytes_never_lead_astray);
    return test_report();
}
