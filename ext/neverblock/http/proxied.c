/* proxied.c - reads the header of the PROXY protocol. Pure C, no allocation. Read after: proxied.h.
 */
#include "proxied.h"
#include "bytes.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

/* --- version 2: binary -------------------------------------------------------------------- */

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n"; /* 12 bytes */

enum { SIGNATURE = 12, FIXED = 16, LOCAL = 0x20, PROXY = 0x21, TCP4 = 0x11, TCP6 = 0x21 };

static int take(nb_proxied_t *proxied, int family, const char *address, size_t size)
{
    proxied->family = family;
    memcpy(proxied->address, address, size);
    return NB_PROXIED_DONE;
}

/* Source and destination address, then the two ports. */
static int read_binary(nb_proxied_t *proxied, const char *bytes, size_t size)
{
    if (size < FIXED)
        return NB_PROXIED_MORE;
    unsigned command = nb_byte_at(bytes + 12), kind = nb_byte_at(bytes + 13);
    size_t length = (size_t)nb_byte_at(bytes + 14) << 8 | nb_byte_at(bytes + 15);
    if (command != LOCAL && command != PROXY)
        return NB_PROXIED_BAD;
    if (command == PROXY && ((kind == TCP4 && length < 12) || (kind == TCP6 && length < 36)))
        return NB_PROXIED_BAD;
    if (size < FIXED + length)
        return NB_PROXIED_MORE;
    proxied->size = FIXED + length;
    if (command == PROXY && kind == TCP4)
        return take(proxied, AF_INET, bytes + FIXED, 4);
    if (command == PROXY && kind == TCP6)
        return take(proxied, AF_INET6, bytes + FIXED, 16);
    return NB_PROXIED_DONE; /* a health check, a UNIX socket, or what has no connection */
}

/* --- version 1: one line of text ---------------------------------------------------------- */

#define LONGEST 107 /* bytes of a line with its end, in the worst case */

/* Cuts the next word, up to a blank or the end of the line. Returns its size, 0 if there is none.
 */
static size_t next_word(const char **at, const char *end, const char **word)
{
    *word = *at;
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    const char *stop = blank ? blank : end;
    *at = blank ? blank + 1 : end;
    return (size_t)(stop - *word);
}

static int read_address(int family, const char *word, size_t size, unsigned char *address)
{
    char text[INET6_ADDRSTRLEN];
    if (!size || size >= sizeof(text) || memchr(word, 0, size))
        return 0;
    memcpy(text, word, size);
    text[size] = '\0';
    return inet_pton(family, text, address) == 1;
}

static int is_port(const char *word, size_t size)
{
    unsigned number = 0;
    if (!size || size > 5)
        return 0;
    for (size_t i = 0; i < size; i++) {
        if (!nb_is_digit(word + i))
            return 0;
        number = number * 10 + (nb_byte_at(word + i) - '0');
    }
    return number <= 65535;
}

/* "TCP4 source destination port port" */
static int read_words(nb_proxied_t *proxied, const char *at, const char *end)
{
    const char *word;
    unsigned char destination[16];
    size_t size = next_word(&at, end, &word);
    if (size == 7 && memcmp(word, "UNKNOWN", 7) == 0)
        return NB_PROXIED_DONE;
    if (size != 4 || memcmp(word, "TCP", 3) != 0 || (word[3] != '4' && word[3] != '6'))
        return NB_PROXIED_BAD;
    int family = word[3] == '4' ? AF_INET : AF_INET6;
    size = next_word(&at, end, &word);
    if (!read_address(family, word, size, proxied->address))
        return NB_PROXIED_BAD;
    size = next_word(&at, end, &word);
    if (!read_address(family, word, size, destination))
        return NB_PROXIED_BAD;
    for (int port = 0; port < 2; port++) {
        size = next_word(&at, end, &word);
        if (!is_port(word, size))
            return NB_PROXIED_BAD;
    }
    if (at != end || end[-1] == ' ')
        return NB_PROXIED_BAD;
    proxied->family = family;
    return NB_PROXIED_DONE;
}

static int read_line(nb_proxied_t *proxied, const char *bytes, size_t size)
{
    size_t most = size < LONGEST ? size : LONGEST;
    const char *feed = memchr(bytes, '\n', most);
    if (!feed)
        return most == LONGEST ? NB_PROXIED_BAD : NB_PROXIED_MORE;
    if (feed[-1] != '\r')
        return NB_PROXIED_BAD;
    proxied->size = (size_t)(feed + 1 - bytes);
    return read_words(proxied, bytes + 6, feed - 1);
}

/* --- either ------------------------------------------------------------------------------- */

int nb_proxied_read(nb_proxied_t *proxied, const char *bytes, size_t size)
{
    memset(proxied, 0, sizeof(*proxied));
    size_t text = size < 6 ? size : 6, binary = size < SIGNATURE ? size : SIGNATURE;
    if (memcmp(bytes, "PROXY ", text) == 0)
        return text < 6 ? NB_PROXIED_MORE : read_line(proxied, bytes, size);
    if (memcmp(bytes, signature, binary) == 0)
        return binary < SIGNATURE ? NB_PROXIED_MORE : read_binary(proxied, bytes, size);
    return NB_PROXIED_BAD;
}
