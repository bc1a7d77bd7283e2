/* backends.c - the backends of this build, best first. Pure C. Read after: backend.h.
 *
 * A new one is a file with its table beside epoll.c, a line here, and a have_header in extconf.rb;
 * every test of the loop and of the hooks then runs on it.
 */
#include "backend/backend.h"
#include <stddef.h>

#ifdef NB_EPOLL
extern const nb_backend_ops_t nb_backend_epoll;
#endif
extern const nb_backend_ops_t nb_backend_poll;

const nb_backend_ops_t *const nb_backends[] = {
#ifdef NB_EPOLL
    &nb_backend_epoll,
#endif
    &nb_backend_poll,
    NULL,
};
