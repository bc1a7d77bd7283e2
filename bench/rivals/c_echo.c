/* c_echo.c - 512-byte echo over one epoll loop. Read after: c_loop.h. */
#include "c_loop.h"

static char message[512];

static bool serve(int fd, struct peer *peer, const char *data, size_t bytes)
{
    (void)peer;
    return write(fd, data, bytes) == (ssize_t)bytes;
}

int main(int argc, char **argv)
{
    const struct protocol echo = {.request = message,
                                  .response = message,
                                  .request_bytes = sizeof(message),
                                  .response_bytes = sizeof(message),
                                  .serve = serve};

    memset(message, 'x', sizeof(message));
    return loop_main(argc, argv, &echo);
}
