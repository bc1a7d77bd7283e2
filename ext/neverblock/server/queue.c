/* queue.c - connections that wait for a worker. Uses ruby.h. Read after: queue.h. */
#include "server/queue.h"
#include "base/clock.h"

void nb_queue_add(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    conn->since_ns = server->loop->now_ns;
    nb_list_append(&server->runnable, &conn->queue);
    server->runnable_count++;
    nb_queue_expect(server);
}

void nb_queue_remove(nb_conn_t *conn)
{
    nb_list_remove(&conn->queue);
    conn->server->runnable_count--;
}

nb_conn_t *nb_queue_first(const nb_server_t *server)
{
    return nb_list_empty(&server->runnable)
               ? NULL
               : nb_container_of(server->runnable.next, nb_conn_t, queue);
}

void nb_queue_expect(nb_server_t *server)
{
    uint64_t limit = server->options.queue_timeout_ns;
    if (server->queue_timer.index != NB_TIMER_IDLE || limit == NB_NEVER ||
        nb_list_empty(&server->runnable))
        return;
    nb_loop_add_timer(server->loop, &server->queue_timer, nb_queue_first(server)->since_ns + limit);
}
