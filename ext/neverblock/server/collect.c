/* collect.c - collects garbage when the loop is about to sleep. Uses ruby.h.
 *
 * lib/neverblock/server/collections.rb decides when. It is asked only while Ruby says that the next
 * collection has to be a full one, or as long as its last answer was to ask again.
 *
 * Read after: collect.h.
 */
#include "server/collect.h"

/* Ruby may find this out long after a collection, when its sweep has ended. */
static bool is_demanded(void)
{
    return !NIL_P(rb_gc_latest_gc_info(ID2SYM(rb_intern("need_major_by"))));
}

static VALUE ask(VALUE argument)
{
    const nb_server_t *server = (nb_server_t *)argument;
    return rb_funcall(server->self, rb_intern("collect"), 1, SIZET2NUM(server->running_count));
}

static void on_rest(nb_hook_t *hook)
{
    nb_server_t *server = nb_container_of(hook, nb_server_t, rest_hook);
    VALUE self = server->self;
    if (!server->collecting && !is_demanded())
        return;
    VALUE again = nb_loop_look(server->loop, ask, (VALUE)server);
    server->collecting = again == Qtrue;
    RB_GC_GUARD(self);
}

void nb_server_collect_at_rest(nb_server_t *server)
{
    server->rest_hook.call = on_rest;
    server->collecting = false;
    nb_loop_at_rest(server->loop, &server->rest_hook);
}
