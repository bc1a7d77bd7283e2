/* c_http.c - a raw HTTP/1.1 answer with keep-alive over one epoll loop. Read after: c_loop.h. */
#include "c_loop.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
#define RESPONSE                                                                                   \
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!"

/* A request ends with an empty line; its last bytes are remembered over split reads in `got`. */
static bool serve(int fd, struct peer *peer, const char *data, size_t bytes)
{
    static const char end[] = "\r\n\r\n";

    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == end[peer->got])
            peer->got++;
        else
            peer->got = data[i] == '\r';
        if (peer->got < 4)
            continue;
        peer->got = 0;
        if (write(fd, RESPONSE, sizeof(RESPONSE) - 1) != sizeof(RESPONSE) - 1)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const struct protocol http = {.request = REQUEST,
                                  .response = RESPONSE,
                                  .request_bytes = sizeof(REQUEST) - 1,
                                  .response_bytes = sizeof(RESPONSE) - 1,
                                  .serve = serve};

    return loop_main(argc, argv, &http);
}
