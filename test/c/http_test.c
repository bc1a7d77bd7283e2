/* http_test.c - head.c and chunked.c under ASan and UBSan. Every input lies against a page that may
 * not be touched, is read whole, byte by byte, and cut in two at every place: same answer each
 * time.
 *
 * Run: rake test:c (or: cc -g -fsanitize=address,undefined -o t test/c/http_test.c
 *      ext/neverblock/http/{head,target,field,chunked}.c && ./t)
 */
#include "../../ext/neverblock/http/head.h"
#include "../../ext/neverblock/http/chunked.h"
#include "../../ext/neverblock/http/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPACE (1 << 17)
#define FIELDS 32

static char *guard; /* first byte of the forbidden page */
static int checks, failures;
static const nb_head_limits_t LIMITS = {.line_bytes = 256, .head_bytes = 2048, .field_count = 16};

static char *against_guard(const char *bytes, size_t size)
{
    memcpy(guard - size, bytes, size);
    return guard - size;
}

static void check(int ok, const char *what, const char *input, int got, int wanted)
{
    checks++;
    if (ok)
        return;
    failures++;
    printf("FAIL %s: got %d (%s), wanted %d (%s), input <<%.200s>>\n", what, got,
           got < 0 ? nb_head_text(got) : "", wanted, wanted < 0 ? nb_head_text(wanted) : "", input);
}

/* Reads input in the parts [0, cut) and [cut, size). */
static int read_cut(const char *input, size_t size, size_t cut, nb_head_t *head, nb_field_t *fields)
{
    nb_head_start(head);
    int result = NB_HEAD_MORE;
    if (cut)
        result = nb_head_read(head, against_guard(input, cut), cut, fields, FIELDS, &LIMITS);
    if (result == NB_HEAD_MORE)
        result = nb_head_read(head, against_guard(input, size), size, fields, FIELDS, &LIMITS);
    return result;
}

static int read_bytewise(const char *input, size_t size, nb_head_t *head, nb_field_t *fields)
{
    int result = NB_HEAD_MORE;
    nb_head_start(head);
    for (size_t count = 1; count <= size && result == NB_HEAD_MORE; count++) {
        uint32_t before = head->scanned;
        result = nb_head_read(head, against_guard(input, count), count, fields, FIELDS, &LIMITS);
        check(head->scanned >= before, "never scans back", input, (int)head->scanned, (int)before);
    }
    return result;
}

static void head_case(const char *input, size_t size, int wanted, nb_head_t *head,
                      nb_field_t *fields)
{
    int result = read_cut(input, size, 0, head, fields);
    check(result == wanted, "whole", input, result, wanted);
    for (size_t cut = 1; cut < size; cut++) {
        nb_head_t other;
        nb_field_t other_fields[FIELDS];
        result = read_cut(input, size, cut, &other, other_fields);
        check(result == wanted, "cut", input, result, wanted);
        if (wanted == NB_HEAD_DONE && result == wanted) {
            check(memcmp(&other, head, sizeof(other)) == 0, "cut spans", input, (int)cut, 0);
            check(memcmp(other_fields, fields, head->field_count * sizeof(*fields)) == 0,
                  "cut fields", input, (int)cut, 0);
        }
    }
    nb_head_t bytewise;
    nb_field_t bytewise_fields[FIELDS];
    result = read_bytewise(input, size, &bytewise, bytewise_fields);
    check(result == wanted, "bytewise", input, result, wanted);
}

static int span_is(const char *input, nb_span_t span, const char *text)
{
    return span.size == strlen(text) && memcmp(input + span.at, text, span.size) == 0;
}

#define HEAD(input, wanted)                                                                        \
    do {                                                                                           \
        nb_head_t head;                                                                            \
        nb_field_t fields[FIELDS];                                                                 \
        head_case(input, sizeof(input) - 1, wanted, &head, fields);                                \
    } while (0)
#define H "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"

/* A good request and what must come out of it. */
static void good(const char *input, const char *path, const char *query, const char *host,
                 unsigned flags, uint64_t length)
{
    nb_head_t head;
    nb_field_t fields[FIELDS];
    head_case(input, strlen(input), NB_HEAD_DONE, &head, fields);
    check(span_is(input, head.path, path), "path", input, 0, 1);
    check(span_is(input, head.query, query), "query", input, 0, 1);
    check(span_is(input, head.host, host), "host", input, 0, 1);
    check((head.flags & 63u) == flags, "flags", input, head.flags & 63, (int)flags);
    check(head.content_length == length, "length", input, (int)head.content_length, (int)length);
}

static void test_good_requests(void)
{
    enum { KEEP = NB_HEAD_KEEP_ALIVE, LENGTH = NB_HEAD_HAS_LENGTH, CHUNKED = NB_HEAD_CHUNKED };
    good(GET H "\r\n", "/", "", "a", KEEP, 0);
    good("\r\n" GET H "\r\n", "/", "", "a", KEEP, 0);
    good("GET /a/b?c=d?e HTTP/1.1\r\n" H "\r\n", "/a/b", "c=d?e", "a", KEEP, 0);
    good("GET /? HTTP/1.1\r\nhOsT:\t b.c:80 \t\r\n\r\n", "/", "", "b.c:80", KEEP, 0);
    good("GET // HTTP/1.1\r\n" H "\r\n", "//", "", "a", KEEP, 0);
    good("GET /\xc3\xa9?\xff HTTP/1.1\r\n" H "\r\n", "/\xc3\xa9", "\xff", "a", KEEP, 0);
    good("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "*", "", "", KEEP, 0);
    good("GET http://x:1/p?q HTTP/1.1\r\n" H "\r\n", "/p", "q", "x:1", KEEP, 0);
    good("GET HTTPS://x HTTP/1.1\r\n" H "\r\n", "", "", "x", KEEP | NB_HEAD_HTTPS, 0);
    good("GET http://x?q HTTP/1.1\r\n" H "\r\n", "", "q", "x", KEEP, 0);
    good("GET http://[::1]:80/ HTTP/1.1\r\n" H "\r\n", "/", "", "[::1]:80", KEEP, 0);
    good("OPTIONS * HTTP/1.1\r\n" H "\r\n", "*", "", "a", KEEP, 0);
    good("CONNECT a:443 HTTP/1.1\r\n" H "\r\n", "", "", "a:443", KEEP, 0);
    good("GET / HTTP/1.0\r\n\r\n", "/", "", "", 0, 0);
    good("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "/", "", "", KEEP, 0);
    good("GET / HTTP/1.7\r\n" H "\r\n", "/", "", "a", KEEP, 0);
    good(GET H "Connection: , Close ,x\r\n\r\n", "/", "", "a", 0, 0);
    good("POST / HTTP/1.1\r\n" H "Content-Length: 007\r\n\r\n", "/", "", "a", KEEP | LENGTH, 7);
    good("POST / HTTP/1.1\r\nContent-Length: 9223372036854775799\r\n" H "\r\n", "/", "", "a",
         KEEP | LENGTH, 9223372036854775799u);
    good("POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked \r\n\r\n", "/", "", "a",
         KEEP | CHUNKED, 0);
    good("POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n", "/", "", "a",
         KEEP | LENGTH | NB_HEAD_EXPECT_CONTINUE, 1);
    good("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "/", "", "",
         LENGTH, 1);
    good(GET H "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n", "/", "", "a",
         KEEP | NB_HEAD_UPGRADE, 0);
    good(GET H "Upgrade: websocket\r\nConnection: keep-alive\r\n\r\n", "/", "", "a", KEEP, 0);
    good("GET / HTTP/1.0\r\nUpgrade: websocket\r\nConnection: keep-alive, upgrade\r\n\r\n", "/", "",
         "", KEEP, 0);
    good(GET H "X: \x80\xff caf\xc3\xa9\t.\r\n\r\n", "/", "", "a", KEEP, 0);
    good(GET H "X:\r\nY:   \r\n\r\n", "/", "", "a", KEEP, 0);
    good("M-SEARCH /a|b^`{}[]\\%zz HTTP/1.1\r\n" H "\r\n", "/a|b^`{}[]\\%zz", "", "a", KEEP, 0);
}

static void test_request_lines(void)
{
    HEAD("", NB_HEAD_MORE);
    HEAD("\r\n", NB_HEAD_MORE);
    HEAD("G", NB_HEAD_MORE);
    HEAD(GET H "\r", NB_HEAD_MORE);
    HEAD("\r\n\r\n" GET H "\r\n", NB_HEAD_BAD_METHOD);
    HEAD("\n" GET H "\r\n", NB_HEAD_BARE_LF);
    HEAD("GET / HTTP/1.1\n" H "\r\n", NB_HEAD_BARE_LF);
    HEAD("\x16\x03\x01", NB_HEAD_BAD_METHOD);
    HEAD(" GET / HTTP/1.1\r\n", NB_HEAD_BAD_METHOD);
    HEAD("GE(T / HTTP/1.1\r\n", NB_HEAD_BAD_METHOD);
    HEAD("GET\r\n", NB_HEAD_BAD_METHOD);
    HEAD("GET\t/ HTTP/1.1\r\n", NB_HEAD_BAD_METHOD);
    HEAD("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n", NB_HEAD_LONG_METHOD);
    HEAD("GET  / HTTP/1.1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET /  HTTP/1.1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/1.1 \r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / x HTTP/1.1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET /\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / \r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / http/1.1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/1.\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/1.10\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/01.1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/1,1\r\n", NB_HEAD_BAD_VERSION);
    HEAD("GET / HTTP/0.9\r\n", NB_HEAD_UNKNOWN_VERSION);
    HEAD("GET / HTTP/2.0\r\n", NB_HEAD_UNKNOWN_VERSION);
    HEAD("PRI * HTTP/2.0\r\n", NB_HEAD_UNKNOWN_VERSION);
    HEAD("GET x HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET * HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("OPTIONS ** HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET /a#b HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET /\x7f HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://\xc3\xa9/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET /\"<> HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET /\0 HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET /\r HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http:// HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http:/// HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://:80/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://u@h/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://h:8x/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://[/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET http://[]/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET ftp://h/ HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("GET a:443 HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("CONNECT a HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("CONNECT a: HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("CONNECT a1 HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("CONNECT :1 HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
    HEAD("CONNECT / HTTP/1.1\r\n", NB_HEAD_BAD_TARGET);
}

static void test_field_lines(void)
{
    HEAD(GET "Host: a\n\r\n", NB_HEAD_BARE_LF);
    HEAD(GET H "\n", NB_HEAD_BARE_LF);
    HEAD(GET H "X: a\rb\r\n\r\n", NB_HEAD_BAD_VALUE);
    HEAD(GET H "X: a\r\r\n\r\n", NB_HEAD_BAD_VALUE);
    HEAD(GET H "X: a\0b\r\n\r\n", NB_HEAD_BAD_VALUE);
    HEAD(GET H "X: 1234567\x7f"
               "9\r\n\r\n",
         NB_HEAD_BAD_VALUE);
    HEAD(GET H "X: 123456789\x01\r\n\r\n", NB_HEAD_BAD_VALUE);
    HEAD(GET H "X : a\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H "X\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H ": a\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H "X(: a\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H "X\0: a\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H "\xc3\xa9: a\r\n\r\n", NB_HEAD_BAD_NAME);
    HEAD(GET H "X: a\r\n b\r\n\r\n", NB_HEAD_FOLDED);
    HEAD(GET H "X: a\r\n\tb\r\n\r\n", NB_HEAD_FOLDED);
    HEAD(GET " X: a\r\n" H "\r\n", NB_HEAD_FOLDED);
    HEAD(GET "\r\n", NB_HEAD_NO_HOST);
    HEAD("GET http://x/ HTTP/1.1\r\n\r\n", NB_HEAD_NO_HOST);
    HEAD(GET H H "\r\n", NB_HEAD_TWO_HOSTS);
    HEAD("GET / HTTP/1.0\r\n" H H "\r\n", NB_HEAD_TWO_HOSTS);
    HEAD(GET "Host: a b\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host:\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: \r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: a/b\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: u@a\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: :80\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: a:8o\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: a:1234567\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: [::1\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET "Host: [::1]x\r\n\r\n", NB_HEAD_BAD_HOST);
    HEAD(GET H "Expect: 200-ok\r\n\r\n", NB_HEAD_BAD_EXPECT);
}

#define POST "POST / HTTP/1.1\r\n" H
static void test_framing(void)
{
    HEAD(POST "Content-Length: \r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: +5\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: -5\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 0x5\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 5 5\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 5,5\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 5.0\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", NB_HEAD_TWO_LENGTHS);
    HEAD(POST "Content-Length: 9223372036854775800\r\n\r\n", NB_HEAD_HUGE_LENGTH);
    HEAD(POST "Content-Length: 18446744073709551617\r\n\r\n", NB_HEAD_HUGE_LENGTH);
    HEAD(POST "Content-Length: 99999999999999999999999999x\r\n\r\n", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", NB_HEAD_TWO_FRAMINGS);
    HEAD(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", NB_HEAD_TWO_FRAMINGS);
    HEAD(POST "Content_Length: 5\r\n\r\n", NB_HEAD_MASKED_FRAMING);
    HEAD(POST "transfer_ENCODING: chunked\r\n\r\n", NB_HEAD_MASKED_FRAMING);
    HEAD(POST "Content_Lengths: 5\r\nX_Content_Length: 5\r\nTransfer~Encoding: x\r\n\r\n",
         NB_HEAD_DONE);
    HEAD(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", NB_HEAD_UNKNOWN_CODING);
    HEAD(POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
         NB_HEAD_UNKNOWN_CODING);
    HEAD(POST "Transfer-Encoding: chunked, gzip\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: gzip\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: identity\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding:\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: chunked;q=1\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Content-Length: 5\t\r\n\r\nhello", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Content-Length:\t5\r\n\r\nhello", NB_HEAD_BAD_LENGTH);
    HEAD(POST "Transfer-Encoding: , chunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: chunked,\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: gzip,, chunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: chunked\t\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding:\tchunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: xchunked\r\n\r\n", NB_HEAD_BAD_CODING);
    HEAD(POST "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
         NB_HEAD_BAD_VALUE);
    HEAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", NB_HEAD_OLD_CODING);
}

/* `before`, then count times filler, then `after`. */
static int read_long(const char *before, const char *filler, int count, const char *after)
{
    static char input[SPACE];
    size_t size = 0;
    nb_head_t head;
    nb_field_t fields[FIELDS];
    size = (size_t)sprintf(input, "%s", before);
    while (count--)
        size += (size_t)sprintf(input + size, "%s", filler);
    size += (size_t)sprintf(input + size, "%s", after);
    int whole = read_cut(input, size, 0, &head, fields);
    int bytewise = read_bytewise(input, size, &head, fields);
    check(whole == bytewise, "long: whole and bytewise agree", before, whole, bytewise);
    return whole;
}

static void expect(int got, int wanted, const char *what)
{
    check(got == wanted, what, what, got, wanted);
}

static void test_limits(void)
{
    /* "GET /" + n + " HTTP/1.1\r\n" is 16 + n bytes. */
    expect(read_long("GET /", "a", 240, " HTTP/1.1\r\n" H "\r\n"), NB_HEAD_DONE, "line at limit");
    expect(read_long("GET /", "a", 241, " HTTP/1.1\r\n" H "\r\n"), NB_HEAD_LONG_LINE, "line");
    expect(read_long("GET /", "a", 250, ""), NB_HEAD_MORE, "line without end, below the limit");
    expect(read_long("GET /", "a", 251, ""), NB_HEAD_LONG_LINE, "line without end, at the limit");
    expect(read_long("GET /", "a", 60000, ""), NB_HEAD_LONG_LINE, "line without end");
    expect(read_long(GET H "X: ", "a", 2048 - 32, "\r\n\r\n"), NB_HEAD_DONE, "head at limit");
    expect(read_long(GET H "X: ", "a", 2048 - 31, "\r\n\r\n"), NB_HEAD_LONG_HEAD, "head");
    expect(read_long(GET H "X: ", "a", 2048 - 29, ""), NB_HEAD_MORE, "head without end, below");
    expect(read_long(GET H "X: ", "a", 2048 - 28, ""), NB_HEAD_LONG_HEAD, "head without end, at");
    expect(read_long(GET H "X: ", "a", 60000, ""), NB_HEAD_LONG_HEAD, "head without end");
    expect(read_long("\r\n", "\r", 1, ""), NB_HEAD_BAD_METHOD, "a second empty line");
    expect(read_long(GET H, "X: a\r\n", 15, "\r\n"), NB_HEAD_DONE, "fields at limit");
    expect(read_long(GET H, "X: a\r\n", 16, "\r\n"), NB_HEAD_MANY_FIELDS, "fields");
}

static void test_fields_array_grows(void)
{
    const char input[] = GET H "A: 1\r\nB: 2\r\nC: 3\r\n\r\n";
    nb_head_t head;
    nb_field_t fields[4];
    int result, full = 0;
    size_t capacity = 0;
    nb_head_start(&head);
    while ((result = nb_head_read(&head, input, sizeof(input) - 1, fields, capacity, &LIMITS)) ==
           NB_HEAD_FIELDS_FULL) {
        full++;
        capacity++;
    }
    expect(result, NB_HEAD_DONE, "grown fields: done");
    expect(full, 4, "grown fields: asked for each");
    expect((int)head.field_count, 4, "grown fields: count");
    expect(input[fields[3].name] == 'C' && input[fields[3].value] == '3', 1, "grown fields: last");
    expect((int)head.size, (int)sizeof(input) - 1, "grown fields: size");
}

static void test_known_names(void)
{
    for (unsigned known = 1; known < NB_FIELD_KNOWN_COUNT; known++) {
        char line[80];
        nb_field_t field;
        for (int shape = 0; shape < 3; shape++) {
            int size = sprintf(line, "%s: v", nb_field_names[known].name);
            for (int i = 0; i < size && shape; i++)
                if (line[i] >= 'A' && line[i] <= 'Z' && shape == 1)
                    line[i] |= 0x20;
                else if (line[i] >= 'a' && line[i] <= 'z' && shape == 2 && i < size - 1)
                    line[i] &= ~0x20;
            expect(nb_field_read(line, (size_t)size, &field), 0, line);
            expect(field.known, (int)known, line);
        }
    }
    nb_field_t field;
    nb_field_read("Hosx: v", 7, &field);
    expect(field.known, 0, "unknown name");
    nb_field_read("X\x0d-Real-IP: v", 13, &field);
}

/* Decodes in the parts [0, cut) and [cut, size); the data goes to out. */
static int chunk_cut(const char *input, size_t size, size_t cut, char *out, size_t *used)
{
    nb_chunked_t chunked;
    nb_piece_t piece;
    int result = NB_CHUNKED_MORE;
    size_t ends[] = {cut, size}, at = 0, count = 0;
    nb_chunked_start(&chunked);
    for (int part = 0; part < 2 && result == NB_CHUNKED_MORE; part++) {
        size_t end = ends[part];
        const char *bytes = against_guard(input + at, end - at);
        while ((result = nb_chunked_read(&chunked, bytes, end - at, &piece)) == NB_CHUNKED_DATA) {
            memcpy(out + count, bytes + piece.at, piece.size);
            count += piece.size;
            bytes += piece.used;
            at += piece.used;
        }
        at += piece.used;
    }
    out[count] = 0;
    *used = at;
    return result;
}

static void chunks(const char *input, size_t size, int wanted, const char *data, size_t rest)
{
    char out[SPACE];
    size_t used;
    for (size_t cut = 0; cut <= size; cut++) {
        int result = chunk_cut(input, size, cut, out, &used);
        check(result == wanted, "chunked", input, result, wanted);
        if (wanted == NB_CHUNKED_DONE) {
            check(strcmp(out, data) == 0, "chunked data", input, (int)cut, 0);
            check(used == size - rest, "chunked used", input, (int)used, (int)(size - rest));
        }
    }
}
#define CHUNKS(input, wanted) chunks(input, sizeof(input) - 1, wanted, "", 0)
#define CHUNKS_OK(input, data, rest) chunks(input, sizeof(input) - 1, NB_CHUNKED_DONE, data, rest)

static void test_chunked(void)
{
    CHUNKS_OK("0\r\n\r\n", "", 0);
    CHUNKS_OK("5\r\nhello\r\n0\r\n\r\nGET ", "hello", 4);
    CHUNKS_OK("A\r\n0123456789\r\n00b\r\n0123456789x\r\n00\r\n\r\n", "01234567890123456789x", 0);
    CHUNKS_OK("1;a\r\nx\r\n0;b=c;d=\"e\\\";\" \t; f\r\n\r\n", "x", 0);
    CHUNKS_OK("1 ;a = b;c\r\nx\r\n0\r\nX: y\r\nZ:\r\n\r\n", "x", 0);
    /* more digits than one size may have */
    CHUNKS_OK(
        "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n1\r\ne\r\n1\r\nf\r\n1\r\ng\r\n1\r\nh\r\n1\r\ni\r\n"
        "1\r\nj\r\n1\r\nk\r\n1\r\nl\r\n1\r\nm\r\n1\r\nn\r\n1\r\no\r\n1\r\np\r\n1\r\nq\r\n0\r\n\r\n",
        "abcdefghijklmnopq", 0);
    CHUNKS("5\r\nhel", NB_CHUNKED_MORE);
    CHUNKS("0\r\n", NB_CHUNKED_MORE);
    CHUNKS("0\r\nX: y\r\n", NB_CHUNKED_MORE);
    CHUNKS("\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("g\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("-1\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("0x5\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("5\nhello\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("5\r\rhello\r\n", NB_CHUNKED_BAD_SIZE);
    CHUNKS("5 \r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5;\r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5;a=\r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5;a b\r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5;a=\"\n\"\r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5;a\nhello\r\n0\r\n\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5\r\nhello0\r\n", NB_CHUNKED_BAD_END);
    CHUNKS("5\r\nhello\n0\r\n", NB_CHUNKED_BAD_END);
    CHUNKS("5;a=\"\x7f\"\r\nhello\r\n", NB_CHUNKED_BAD_EXTENSION);
    CHUNKS("5\r\nhello\rX", NB_CHUNKED_BAD_END);
    CHUNKS("5\r\nhelloX\n", NB_CHUNKED_BAD_END);
    CHUNKS("0\r\nX: y\rZ", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\nX: \x7f\r\n\r\n", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\n\rX", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\n X: y\r\n\r\n", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\nX y\r\n\r\n", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\nX: y\n\r\n", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("0\r\n\n", NB_CHUNKED_BAD_TRAILER);
    CHUNKS("7fffffffffffffff1\r\n", NB_CHUNKED_HUGE_SIZE);
    CHUNKS("ffffffffffffffff\r\n", NB_CHUNKED_HUGE_SIZE);
    CHUNKS("00000000000000001\r\n", NB_CHUNKED_HUGE_SIZE);
}

static void test_chunked_extra_is_limited(void)
{
    static char input[2 * NB_CHUNKED_EXTRA_BYTES];
    nb_chunked_t chunked;
    nb_piece_t piece;
    memset(input, 'a', sizeof(input));
    memcpy(input, "1;", 2);
    nb_chunked_start(&chunked);
    expect(nb_chunked_read(&chunked, input, sizeof(input), &piece), NB_CHUNKED_LONG_EXTRA, "extra");
    expect((int)piece.used, NB_CHUNKED_EXTRA_BYTES + 3, "extra: stops at the limit");
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *space =
        mmap(NULL, SPACE + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED || mprotect(space + SPACE, page, PROT_NONE))
        return perror("mmap"), 2;
    guard = space + SPACE;
    test_good_requests();
    test_request_lines();
    test_field_lines();
    test_framing();
    test_limits();
    test_fields_array_grows();
    test_known_names();
    test_chunked();
    test_chunked_extra_is_limited();
    printf("http: %d checks, %d failures\n", checks, failures);
    return failures ? 1 : 0;
}
