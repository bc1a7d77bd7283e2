/* backends.c - the backends of this build, best first. Pure C. Read after: backend.h.
 *
 * A new one is a file with its table beside epoll.c, a line here, and a have_header in extconf.rb;
 * every test of the loop and of the hooks then runs on it.
 */
#include "backend/backend.h"
#include <stddef.h>

const nb_backend_ops_t *const nb_backends[] = {
#ifdef NB_EPOLL
    &nb_backend_epoll,
#endif
#ifdef NB_KQUEUE
    &nb_backend_kqueue,
#endif
    &nb_backend_poll,
    NULL,
};
