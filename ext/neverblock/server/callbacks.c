/* callbacks.c - what the application wants called after its response. Uses ruby.h.
 *
 * Read after: callbacks.h.
 */
#include "server/callbacks.h"
#include "server/env.h"

static ID id_call;
VALUE nb_after_key, nb_finished_key;

typedef struct {
    VALUE callable;
    int count;
    const VALUE *arguments;
} call_t;

static VALUE call_one(VALUE argument)
{
    const call_t *call = (const call_t *)argument;
    return rb_funcallv(call->callable, id_call, call->count, call->arguments);
}

/* rack.after_reply as Puma and Unicorn have it, then rack.response_finished, the last one first. */
void nb_callbacks_run(nb_request_t *request, VALUE failure, nb_callback_raised_t *raised,
                      void *argument)
{
    VALUE after = nb_callbacks_of(request, nb_after_key);
    VALUE finished = nb_callbacks_of(request, nb_finished_key);
    VALUE arguments[] = {request->env, request->status ? INT2FIX(request->status) : Qnil,
                         request->headers ? request->headers : Qnil, failure};
    int state;
    for (long i = 0; after && i < RARRAY_LEN(after); i++) {
        call_t call = {RARRAY_AREF(after, i), 0, NULL};
        rb_protect(call_one, (VALUE)&call, &state);
        raised(argument, state);
    }
    for (long i = finished ? RARRAY_LEN(finished) - 1 : -1; i >= 0; i--) {
        call_t call = {rb_ary_entry(finished, i), 4, arguments};
        rb_protect(call_one, (VALUE)&call, &state);
        raised(argument, state);
    }
    RB_GC_GUARD(after);
    RB_GC_GUARD(finished);
}

void nb_callbacks_init(void)
{
    id_call = rb_intern("call");
    nb_finished_key = nb_env_key("rack.response_finished");
    nb_after_key = nb_env_key("rack.after_reply");
}
