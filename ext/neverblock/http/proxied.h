/* proxied.h - the PROXY protocol, versions 1 and 2: whom a proxy speaks for. Pure C, no allocation.
 *
 * A proxy that forwards TCP sends the client's address before anything else:
 * https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt
 *
 * Read after: bytes.h.
 */
#ifndef NB_HTTP_PROXIED_H
#define NB_HTTP_PROXIED_H

#include <stddef.h>
#include <stdint.h>

typedef struct nb_proxied {
    size_t size; /* of the header in bytes; the client's own bytes begin after it */
    int family;  /* AF_INET, AF_INET6, or 0: the proxy speaks for itself, or knows no address */
    unsigned char address[16];
} nb_proxied_t;

enum nb_proxied_result {
    NB_PROXIED_MORE = 0, /* not complete: call again with more bytes */
    NB_PROXIED_DONE = 1,
    NB_PROXIED_BAD = -1 /* it is not there, or malformed */
};

/* Reads the header at the beginning of bytes; call it with all of them each time. What follows the
 * addresses in version 2 (TLVs) is skipped. */
int nb_proxied_read(nb_proxied_t *proxied, const char *bytes, size_t size);

#endif
