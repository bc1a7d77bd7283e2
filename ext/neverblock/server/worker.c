/* worker.c - the pooled fibers that run requests. Uses ruby.h.
 *
 * A worker takes connections that have something to read until there are none, then rests. Resting
 * workers are woken last in, first out. The one that rested last is the fiber that polls, so a
 * request whose application does not wait costs no switch between fibers at all. Before a worker
 * runs a request, it wakes one more if more connections wait: if the application waits, that one
 * continues with them.
 *
 * A fiber that has computed for a while makes the loop ask the kernel first: requests that can
 * continue do so before others begin, and while several can, none begins. So a process whose core
 * is full runs few requests at a time, like one with few threads. Each is answered sooner, and
 * together they need less memory, fewer database connections and less marking by the garbage
 * collector. Requests that wait for something leave room, and all of them are in progress.
 *
 * Read after: worker.h, queue.h, reader.h, request.h.
 */
#include "server/worker.h"
#include "base/clock.h"
#include "hooks/hooks.h"
#include "server/listener.h"
#include "server/queue.h"
#include "server/reader.h"
#include "server/refusal.h"
#include "server/request.h"
#include "server/fiber_reset.h"
#include <errno.h>
#include <sys/socket.h>

#define CROWDED_NS 1000000000 /* until another fiber is tried, after one that had no room */
#define FRESH_NS 500000       /* then the kernel's last answer is too old to begin a request */
#define BUSY 4                /* ready fibers that keep the core busy: further requests wait */
#define PATIENCE_NS 250000000 /* if none has begun for so long, one begins in any case */

static void kick(nb_server_t *server);

/* How many workers there may be now. */
static size_t limit(const nb_server_t *server)
{
    return server->loop->now_ns < server->crowded_ns ? server->worker_count
                                                     : server->options.fibers;
}

/* --- the queue -------------------------------------------------------------------------------- */

/* No request waits, or only a part of one: its client has closed, or nothing has come since. Such a
 * connection ends or stays as it would without a queue; who asked for nothing gets no answer. */
static bool asks_nothing(nb_conn_t *conn)
{
    char byte;
    if (conn->in.size && conn->state == NB_CONN_IDLE && !conn->partial)
        return false;
    ssize_t size = recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size > 0)
        return false;
    if (size < 0 && errno == EAGAIN)
        nb_conn_dry(conn, NB_READABLE);
    else
        nb_conn_close(conn);
    return true;
}

static void refuse(nb_conn_t *conn, const char *text)
{
    if (asks_nothing(conn))
        return;
    conn->server->counters.rejected_503++;
    nb_conn_refuse(conn, 503, text, NULL);
}

void nb_worker_runnable(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (!nb_list_empty(&conn->queue))
        return;
    if (server->runnable_count >= server->options.queue && server->running_count >= limit(server)) {
        refuse(conn, "too many requests are waiting");
        return;
    }
    nb_queue_add(conn);
    kick(server);
}

/* The first in the queue has been there the longest. */
void nb_worker_queue_due(nb_timer_t *timer)
{
    nb_server_t *server = nb_container_of(timer, nb_server_t, queue_timer);
    nb_conn_t *conn;
    while ((conn = nb_queue_first(server))) {
        if (conn->since_ns + server->options.queue_timeout_ns > server->loop->now_ns)
            break;
        nb_queue_remove(conn);
        refuse(conn, "the request waited too long for a free fiber");
    }
    nb_queue_expect(server);
    if (server->accepting)
        nb_listener_resume(server);
}

static void refuse_all(nb_server_t *server)
{
    nb_conn_t *conn;
    while ((conn = nb_queue_first(server))) {
        nb_queue_remove(conn);
        refuse(conn, "the system has no memory for a fiber");
    }
    if (server->accepting)
        nb_listener_resume(server);
}

/* --- a worker --------------------------------------------------------------------------------- */

static VALUE report_not_stored(VALUE argument)
{
    const nb_server_t *server = (const nb_server_t *)argument;
    VALUE number = INT2NUM(server->body_errno);
    return rb_funcall(server->self, rb_intern("report_not_stored"), 1, number);
}

/* Whoever runs the server must learn of a full disk, also without an access log. */
static void report_disk(nb_server_t *server)
{
    int state = 0;
    rb_protect(report_not_stored, (VALUE)server, &state);
    if (!state)
        return;
    server->running_count--;
    rb_jump_tag(state);
}

static void serve(nb_server_t *server, nb_conn_t *conn)
{
    nb_incoming_t incoming;
    uint64_t now = server->loop->now_ns;
    uint64_t queued = now > conn->since_ns ? now - conn->since_ns : 0;
    if (queued > server->counters.queue_ns_max)
        server->counters.queue_ns_max = queued;
    switch (nb_reader_advance(conn, &incoming)) {
    case NB_ADVANCE_WAIT:
        break;
    case NB_ADVANCE_AGAIN:
        nb_worker_runnable(conn);
        break;
    case NB_ADVANCE_REQUEST:
        nb_request_run(server, conn, &incoming);
        break;
    case NB_ADVANCE_REFUSE:
        nb_conn_refuse(conn, incoming.status, incoming.text, &incoming);
        if (incoming.status == 507)
            report_disk(server);
        break;
    case NB_ADVANCE_GONE:
        nb_conn_close(conn);
    }
}

static void rest(nb_server_t *server)
{
    nb_park_t park;
    nb_worker_t worker = {.park = &park, .server = server};
    pid_t pid = server->loop->pid;
    int state = 0;
    nb_park_init(server->loop, &park, NB_PARK_IDLE);
    nb_list_append(&server->idle, &worker.link);
    nb_idle_begin(server->loop, park.fiber);
    rb_protect(nb_park_value, (VALUE)&park, &state);
    if (server->loop->pid == pid) /* no handler of trap has forked meanwhile */
        nb_idle_end(server->loop, park.fiber);
    if (!nb_list_empty(&worker.link)) /* woken by an exception */
        nb_list_remove(&worker.link);
    else
        server->waking = false;
    if (state)
        rb_jump_tag(state);
}

/* The kernel's last answer is recent enough to begin another request. */
static bool is_fresh(const nb_server_t *server)
{
    return nb_loop_clock(server->loop) - server->loop->now_ns < FRESH_NS;
}

/* More requests at a time would share the core, and each would take longer. Ready fibers need not
 * be requests, so a few requests may always begin. */
static bool has_room(const nb_server_t *server)
{
    const nb_loop_t *loop = server->loop;
    return loop->ready.count < BUSY || server->running_count < BUSY ||
           loop->now_ns - server->begun_ns > PATIENCE_NS;
}

static void serve_next(nb_server_t *server)
{
    nb_conn_t *conn = nb_queue_first(server);
    nb_queue_remove(conn);
    server->running_count++;
    server->begun_ns = server->loop->now_ns;
    kick(server);
    serve(server, conn);
    server->running_count--;
    if (server->accepting)
        nb_listener_resume(server);
}

static VALUE work(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    server->waking = false;
    nb_fiber_reset(server);
    while (server->started) {
        if (!nb_list_empty(&server->runnable))
            serve_next(server); /* one at least, whatever else goes on */
        while (!nb_list_empty(&server->runnable) && is_fresh(server) && has_room(server))
            serve_next(server);
        kick(server);
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

/* --- how many there are ----------------------------------------------------------------------- */

/* The system has no room for another fiber's stack: for a while the existing workers must do, and
 * requests wait for them. */
static void not_started(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    server->worker_count--;
    server->waking = false;
    if (server->worker_count)
        server->crowded_ns = nb_loop_clock(server->loop) + CROWDED_NS;
    else
        refuse_all(server);
}

static void wake_worker(nb_server_t *server)
{
    if (!nb_list_empty(&server->idle)) {
        nb_worker_t *worker = nb_container_of(server->idle.prev, nb_worker_t, link);
        nb_list_remove(&worker->link);
        server->waking = true;
        nb_wake(worker->park, NB_WOKEN);
    } else if (server->worker_count < limit(server)) {
        nb_spawn(server->loop, worker_main, not_started, (VALUE)server);
        server->worker_count++;
        server->waking = true;
    }
}

/* Wakes or makes one worker, if connections wait and no worker is on its way. */
static void kick(nb_server_t *server)
{
    if (server->waking || nb_list_empty(&server->runnable))
        return;
    if (is_fresh(server) && has_room(server)) {
        wake_worker(server);
    } else {
        server->waking = true;
        nb_loop_before_poll(server->loop, &server->kick_hook);
    }
}

void nb_worker_kick_now(nb_hook_t *hook)
{
    nb_server_t *server = nb_container_of(hook, nb_server_t, kick_hook);
    bool waits = !nb_list_empty(&server->runnable), room = has_room(server);
    server->waking = waits && !room;
    if (waits && room)
        wake_worker(server);
    else if (waits)
        nb_loop_before_next_poll(server->loop, &server->kick_hook);
}
