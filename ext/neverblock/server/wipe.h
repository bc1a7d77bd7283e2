/* wipe.h - makes a fiber like new between two requests. Uses ruby.h.
 *
 * Read after: server.h.
 */
#ifndef NB_SERVER_WIPE_H
#define NB_SERVER_WIPE_H

#include "server/server.h"

/* For nb_wipe_fiber; may raise. */
VALUE nb_wipe(VALUE server);
void nb_wipe_init(void);

/* The next request must find a fiber like new: no locals, no storage, no $?, no attributes of
 * frameworks. */
static inline void nb_wipe_fiber(nb_server_t *server)
{
    int failed;
    rb_protect(nb_wipe, (VALUE)server, &failed);
    if (failed)
        rb_set_errinfo(Qnil);
}

#endif
