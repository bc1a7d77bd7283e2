/* proxied_test.c - the header of the PROXY protocol: both versions, cut at each byte, and
 * malformed.
 */
#include "http/proxied.h"
#include "test.h"

#include <arpa/inet.h>

static nb_proxied_t proxied;

/* In memory of just that size: ASan sees the first byte read beyond. */
static int read_part(const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    int result = nb_proxied_read(&proxied, copy, size);
    free(copy);
    return result;
}

/* Every part is incomplete, and what follows is left alone. Returns the text of the address. */
static const char *whole(const char *bytes, size_t size)
{
    static char text[INET6_ADDRSTRLEN];
    char *longer = malloc(size + 3);
    memcpy(longer, bytes, size);
    memcpy(longer + size, "GET", 3);
    for (size_t part = 0; part < size; part++)
        CHECK_EQ(NB_PROXIED_MORE, read_part(bytes, part));
    CHECK_EQ(NB_PROXIED_DONE, read_part(longer, size + 3));
    CHECK_EQ(size, proxied.size);
    free(longer);
    if (!proxied.family)
        return "none";
    return inet_ntop(proxied.family, proxied.address, text, sizeof(text));
}

static void is_bad(const char *bytes, size_t size)
{
    CHECK_EQ(NB_PROXIED_BAD, read_part(bytes, size));
}

#define WHOLE(wanted, bytes) CHECK(!strcmp(wanted, whole(bytes, sizeof(bytes) - 1)))
#define BAD(bytes) is_bad(bytes, sizeof(bytes) - 1)
#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static void version_1_has_the_source(void)
{
    WHOLE("192.0.2.1", "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n");
    WHOLE("2001:db8::1", "PROXY TCP6 2001:db8::1 ::1 0 65535\r\n");
    WHOLE("none", "PROXY UNKNOWN\r\n");
    WHOLE("none", "PROXY UNKNOWN ffff:f ffff:f 65535 65535\r\n");
}

static void version_2_has_the_source(void)
{
    WHOLE("192.0.2.1", SIGNATURE "\x21\x11\0\x0c\xc0\0\x02\x01\x0a\0\0\x01\0\x01\0\x02");
    WHOLE("192.0.2.1", SIGNATURE "\x21\x11\0\x10\xc0\0\x02\x01\x0a\0\0\x01\0\x01\0\x02\x04\0\x01x");
    WHOLE("2001:db8::1", SIGNATURE "\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                                   "0123456789abcdef\0\x01\0\x02");
    WHOLE("none", SIGNATURE "\x20\0\0\0");
    WHOLE("none", SIGNATURE "\x20\x11\0\x0c\xc0\0\x02\x01\x0a\0\0\x01\0\x01\0\x02");
    WHOLE("none", SIGNATURE "\x21\0\0\x02xx");
}

static void what_is_malformed_is_bad(void)
{
    BAD("GET / HTTP/1.1\r\n");
    BAD("\r\nGET");
    BAD("PROXX");
    BAD("PROXY \r\n");
    BAD("PROXY \n");
    BAD("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n");
    BAD("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n");
    BAD("PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n");
    BAD("PROXY TCP4 192.0.2.1 198.51.100.1 56324 65536\r\n");
    BAD("PROXY TCP4 192.0.2.1 198.51.100.1 56324 -1\r\n");
    BAD("PROXY TCP4 192.0.2.256 198.51.100.1 56324 443\r\n");
    BAD("PROXY TCP4 192.0.2.1\0 198.51.100.1 56324 443\r\n");
    BAD("PROXY TCP4 ::1 198.51.100.1 56324 443\r\n");
    BAD("PROXY TCP6 192.0.2.1 ::1 56324 443\r\n");
    BAD("PROXY TCP4 192.0.2.1  198.51.100.1 56324 443\r\n");
    BAD("PROXY TCP5 192.0.2.1 198.51.100.1 56324 443\r\n");
    BAD("PROXY UNKNOWN "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaa");
    BAD(SIGNATURE "\x11\x11\0\x0c");
    BAD(SIGNATURE "\x22\x11\0\x0c");
    BAD(SIGNATURE "\x21\x11\0\x0b");
    BAD(SIGNATURE "\x21\x21\0\x23");
}

int main(void)
{
    RUN(version_1_has_the_source);
    RUN(version_2_has_the_source);
    RUN(what_is_malformed_is_bad);
    return test_report();
}
