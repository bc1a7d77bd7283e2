/* worker.c - the pooled fibers that run requests. Ruby.
 *
 * A worker takes connections that have something to read until there are none, then rests. Resting
 * workers are woken last in, first out: the one that rested last is the fiber that polls, so a
 * request whose application does not wait costs no switch between fibers at all. Before it runs a
 * request it wakes one more worker if more connections wait: should the application wait, that one
 * goes on with them. Who has computed for a while has the loop ask the kernel first: requests that
 * can go on do so before others begin. A process whose core is full then runs few at a time, which
 * need less memory, fewer database connections and less marking by the garbage collector.
 *
 * Read after: server.h, connection.c, request.c. Used by: connection.c, core.c.
 */
#include "server/server.h"
#include "base/clock.h"
#include "hooks/hooks.h"

#define FRESH_NS 500000 /* longer ago, the kernel is asked who can go on before more begin */

static void serve(nb_server_t *server, nb_conn_t *conn)
{
    nb_incoming_t incoming;
    uint64_t limit = server->options.queue_timeout_ns, now = server->loop->now_ns;
    uint64_t queued = now > conn->since_ns ? now - conn->since_ns : 0;
    if (queued > server->counters.queue_ns_max)
        server->counters.queue_ns_max = queued;
    if (queued > limit) {
        server->counters.rejected_503++;
        nb_conn_refuse(conn, 503, "the request waited too long for a free fiber");
    } else if (nb_reader_advance(conn, &incoming) == NB_ADVANCE_REQUEST) {
        nb_request_run(server, conn, &incoming);
    }
}

static void rest(nb_server_t *server)
{
    nb_park_t park;
    nb_worker_t worker = {.park = &park, .server = server};
    int state = 0;
    nb_park_init(server->loop, &park, NB_PARK_IDLE);
    nb_list_append(&server->idle, &worker.link);
    nb_idle_begin(server->loop);
    rb_protect(nb_park_value, (VALUE)&park, &state);
    nb_idle_end(server->loop);
    if (!nb_list_empty(&worker.link)) /* woken by an exception */
        nb_list_remove(&worker.link);
    else
        server->waking = false;
    if (state)
        rb_jump_tag(state);
}

/* What the kernel said last is true enough to begin another request. */
static bool is_fresh(const nb_server_t *server)
{
    return nb_clock_now() - server->loop->now_ns < FRESH_NS;
}

static void serve_next(nb_server_t *server)
{
    nb_conn_t *conn = nb_container_of(server->runnable.next, nb_conn_t, queue);
    nb_list_remove(&conn->queue);
    server->runnable_count--;
    server->running_count++;
    nb_worker_kick(server);
    serve(server, conn);
    server->running_count--;
    if (server->accepting)
        nb_listener_resume(server);
}

static VALUE work(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    server->waking = false;
    nb_request_wipe_fiber(server);
    while (server->started) {
        if (!nb_list_empty(&server->runnable))
            serve_next(server); /* one at least, whatever else goes on */
        while (!nb_list_empty(&server->runnable) && is_fresh(server))
            serve_next(server);
        nb_worker_kick(server);
        rest(server);
    }
    return Qnil;
}

static VALUE worker_main(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    volatile VALUE self = server->self;
    int state = 0;
    rb_protect(work, argument, &state);
    server->worker_count--;
    (void)self;
    if (state)
        rb_jump_tag(state);
    return Qnil;
}

static void wake_worker(nb_server_t *server)
{
    if (!nb_list_empty(&server->idle)) {
        nb_worker_t *worker = nb_container_of(server->idle.prev, nb_worker_t, link);
        nb_list_remove(&worker->link);
        server->waking = true;
        nb_wake(worker->park, NB_WOKEN);
    } else if (server->worker_count < server->options.fibers) {
        server->worker_count++;
        server->waking = true;
        nb_spawn(server->loop, worker_main, (VALUE)server);
    }
}

void nb_worker_kick(nb_server_t *server)
{
    if (server->waking || nb_list_empty(&server->runnable))
        return;
    if (is_fresh(server)) {
        wake_worker(server);
    } else {
        server->waking = true;
        nb_loop_before_poll(server->loop, &server->kick_hook);
    }
}

void nb_worker_kick_now(nb_hook_t *hook)
{
    nb_server_t *server = nb_container_of(hook, nb_server_t, kick_hook);
    server->waking = false;
    if (!nb_list_empty(&server->runnable))
        wake_worker(server);
}

VALUE nb_park_value(VALUE park)
{
    return (VALUE)nb_park((nb_park_t *)park);
}
