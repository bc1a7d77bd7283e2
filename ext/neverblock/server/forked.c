/* forked.c - the parent's server in a forked child. Uses ruby.h.
 *
 * The child shares the parent's sockets. It closes its copies of the connections (the parent's stay
 * open, and clients see their end when the parent closes them), forgets everything, and serves
 * nobody. The listeners are Ruby objects and stay open, like all IO objects. If an application
 * forked and returns in the child, only the parent answers the request; in the child, the process
 * ends.
 *
 * Read after: forked.h.
 */
#include "server/forked.h"
#include "server/exchange.h"
#include "server/listener.h"

/* Their stacks are gone with their fibers; only the fiber that forked continues. */
static void end_requests(nb_server_t *server)
{
    VALUE fiber = rb_fiber_current();
    while (!nb_list_empty(&server->running)) {
        nb_request_t *request = nb_container_of(server->running.next, nb_request_t, link);
        nb_list_remove(&request->link);
        if (request->fiber != fiber && request->exchange)
            nb_exchange_end(request->exchange);
    }
}

static void on_fork(nb_hook_t *hook)
{
    nb_server_t *server = nb_container_of(hook, nb_server_t, fork_hook);
    server->forked = true;
    server->accepting = server->started = server->waking = false;
    server->joiner = NULL;
    end_requests(server);
    nb_listener_close_all(server);
    while (!nb_list_empty(&server->connections))
        nb_conn_close(nb_container_of(server->connections.next, nb_conn_t, link));
    while (!nb_list_empty(&server->idle))
        nb_list_remove(server->idle.next);
    nb_list_remove(&server->flush_hook.link);
    nb_list_remove(&server->kick_hook.link);
    server->running_count = server->worker_count = 1; /* at most; from now on they decrease */
}

void nb_server_watch_forks(nb_server_t *server)
{
    server->fork_hook.call = on_fork;
    nb_loop_on_fork(server->loop, &server->fork_hook);
}
