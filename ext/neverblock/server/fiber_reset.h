/* fiber_reset.h - makes a fiber clean between two requests. Uses ruby.h.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_FIBER_RESET_H
#define NB_SERVER_FIBER_RESET_H

#include "server/server.h"

/* For nb_fiber_reset; may raise. */
VALUE nb_reset_this_fiber(VALUE server);
void nb_fiber_reset_init(void);

/* The next request must find a clean fiber: no locals, no storage, no $?, no attributes of
 * frameworks. */
static inline void nb_fiber_reset(nb_server_t *server)
{
    int failed;
    rb_protect(nb_reset_this_fiber, (VALUE)server, &failed);
    if (failed)
        rb_set_errinfo(Qnil);
}

#endif
