/* callbacks.h - what the application wants called after its response. Uses ruby.h.
 *
 * Read after: request.h.
 */
#ifndef NB_SERVER_CALLBACKS_H
#define NB_SERVER_CALLBACKS_H

#include "server/request.h"

extern VALUE nb_after_key, nb_finished_key; /* rack.after_reply, rack.response_finished */

/* Called after each of them. state: the jump tag of what it has raised, or 0. */
typedef void nb_callback_raised_t(void *argument, int state);

/* An Array that the application may have filled, or 0. */
static inline VALUE nb_callbacks_of(const nb_request_t *request, VALUE key)
{
    VALUE callables = request->env ? rb_hash_lookup(request->env, key) : Qnil; /* no default proc */
    return RB_TYPE_P(callables, T_ARRAY) && RARRAY_LEN(callables) ? callables : 0;
}

static inline bool nb_callbacks_wanted(const nb_request_t *request)
{
    return nb_callbacks_of(request, nb_after_key) || nb_callbacks_of(request, nb_finished_key);
}

/* Calls them all, also those after one that raises. failure: why the response did not go out to its
 * end, or nil. */
void nb_callbacks_run(nb_request_t *request, VALUE failure, nb_callback_raised_t *raised,
                      void *argument);
void nb_callbacks_init(void);

#endif
