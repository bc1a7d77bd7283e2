/* core.c - NB::Server::Core, the C half of NB::Server. Uses ruby.h.
 *
 * Read after: server.h. Used by: lib/neverblock/server.rb.
 */
#include "base/clock.h"
#include "base/portable.h"
#include "loop/wait.h"
#include "server/transport.h"
#include "server/collect.h"
#include "server/connection.h"
#include "server/deadline.h"
#include "server/env.h"
#include "server/events.h"
#include "server/exchange.h"
#include "server/forked.h"
#include "server/input.h"
#include "server/listener.h"
#include "server/output.h"
#include "server/refusal.h"
#include "server/request.h"
#include "server/response.h"
#include "server/response_parts.h"
#include "server/stats.h"
#include "server/timing.h"
#include "server/worker.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

VALUE rb_mNBServer, rb_cNBServerCore;

/* --- memory ----------------------------------------------------------------------------------- */

static void server_mark(void *data)
{
    nb_server_t *server = data;
    rb_gc_mark(server->self); /* itself, so that compaction leaves it where we call it */
    rb_gc_mark(server->app);
    rb_gc_mark(server->env_template);
    if (server->cache) /* NULL while it is created, which may collect garbage */
        nb_env_mark(server->cache);
    for (nb_list_t *item = server->outputs.next; item && item != &server->outputs;
         item = item->next)
        rb_gc_mark(nb_container_of(item, nb_output_t, link)->strings);
}

static void server_free(void *data)
{
    nb_server_t *server = data;
    nb_list_remove(&server->flush_hook.link);
    nb_list_remove(&server->kick_hook.link);
    nb_list_remove(&server->fork_hook.link);
    nb_list_remove(&server->rest_hook.link);
    nb_refusals_free(server);
    free(server->fields);
    xfree(server->cache);
    nb_buffer_free(&server->head_out);
    xfree(server);
}

static size_t server_size(const void *data)
{
    const nb_server_t *server = data;
    return sizeof(*server) + server->connection_count * sizeof(nb_conn_t);
}

/* Not WB_PROTECTED: outputs come and go without a barrier. */
const rb_data_type_t nb_server_type = {
    .wrap_struct_name = "NB::Server::Core",
    .function = {.dmark = server_mark, .dfree = server_free, .dsize = server_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static void on_accept_timer(nb_timer_t *timer)
{
    nb_listener_resume(nb_container_of(timer, nb_server_t, accept_timer));
}

/* A request may have taken its socket out of the server, or lost it, and still work. */
static bool is_drained(const nb_server_t *server)
{
    return server->draining && !server->connection_count && nb_list_empty(&server->running);
}

static void on_drained(nb_server_t *server)
{
    if (server->joiner && is_drained(server))
        nb_wake(server->joiner, NB_WOKEN);
}

static const nb_conn_tells_t tells = {
    .room = nb_listener_resume, .runnable = nb_worker_runnable, .drained = on_drained};

static VALUE core_alloc(VALUE klass)
{
    nb_server_t *server;
    VALUE self = TypedData_Make_Struct(klass, nb_server_t, &nb_server_type, server);
    nb_list_t *lists[] = {&server->listeners,      &server->connections,
                          &server->runnable,       &server->idle,
                          &server->dirty,          &server->running,
                          &server->outputs,        &server->refusals,
                          &server->later,          &server->flush_hook.link,
                          &server->kick_hook.link, &server->fork_hook.link,
                          &server->rest_hook.link};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        nb_list_init(lists[i]);
    server->cache = nb_env_cache_new();
    server->self = self;
    server->tells = &tells;
    server->app = server->env_template = Qnil;
    server->flush_hook.call = nb_conns_flush;
    server->kick_hook.call = nb_worker_kick_now;
    server->accept_timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = on_accept_timer};
    server->queue_timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = nb_worker_queue_due};
    server->later_timer = (nb_timer_t){.index = NB_TIMER_IDLE, .on_due = nb_conns_go_on};
    return self;
}

static nb_server_t *server_of(VALUE self)
{
    return rb_check_typeddata(self, &nb_server_type);
}

/* What needs the loop, which does not exist before the start and after the end. */
static nb_server_t *started_server_of(VALUE self)
{
    nb_server_t *server = server_of(self);
    if (!server->started)
        rb_raise(rb_eRuntimeError, "the server is not running");
    return server;
}

/* --- options ---------------------------------------------------------------------------------- */

static uint64_t number(VALUE options, const char *name)
{
    return NUM2ULL(rb_hash_fetch(options, ID2SYM(rb_intern(name))));
}

/* Seconds; nil: no limit. */
static uint64_t nanoseconds(VALUE seconds)
{
    return NIL_P(seconds) ? NB_NEVER : nb_clock_ns(NUM2DBL(seconds));
}

static uint64_t duration(VALUE options, const char *name)
{
    return nanoseconds(rb_hash_fetch(options, ID2SYM(rb_intern(name))));
}

static bool flag(VALUE options, const char *name)
{
    return RTEST(rb_hash_fetch(options, ID2SYM(rb_intern(name))));
}

/* @!visibility private - options: Hash of Integers, Floats and Booleans, all keys present. */
static VALUE rb_nb_core_configure(VALUE self, VALUE app, VALUE env_template, VALUE options)
{
    nb_server_t *server = server_of(self);
    server->options = (nb_server_options_t){
        .head = {.line_bytes = (uint32_t)number(options, "request_line_bytes"),
                 .head_bytes = (uint32_t)number(options, "header_bytes"),
                 .field_count = (uint32_t)number(options, "header_count")},
        .body_max_bytes = number(options, "body_bytes"),
        .body_memory_bytes = number(options, "body_memory_bytes"),
        .bodies_memory_bytes = number(options, "bodies_memory_bytes"),
        .bodies_file_bytes = number(options, "bodies_file_bytes"),
        .header_timeout_ns = duration(options, "header_timeout"),
        .body_timeout_ns = duration(options, "body_timeout"),
        .idle_timeout_ns = duration(options, "idle_timeout"),
        .write_timeout_ns = duration(options, "write_timeout"),
        .request_timeout_ns = duration(options, "request_timeout"),
        .queue_timeout_ns = duration(options, "queue_timeout"),
        .fibers = number(options, "fibers"),
        .body_fibers = number(options, "body_fibers"),
        .queue = number(options, "queue"),
        .connections = number(options, "connections"),
        .requests_per_connection = number(options, "requests_per_connection"),
        .body_bytes_per_second = number(options, "body_bytes_per_second"),
        .cancel_when_gone = flag(options, "cancel_when_gone"),
        .early_hints = flag(options, "early_hints"),
        .proxy_protocol = flag(options, "proxy_protocol"),
        .shared = flag(options, "shared"),
        .body_streaming = flag(options, "body_streaming"),
        .log = flag(options, "log"),
        .collect = flag(options, "collect_when_idle"),
    };
    server->app = app;
    server->env_template = env_template;
    server->fields =
        realloc(server->fields, (server->options.head.field_count + 1) * sizeof(nb_field_t));
    if (!server->fields)
        rb_memerror();
    return self;
}

/* --- running ---------------------------------------------------------------------------------- */

/* @!visibility private - binds the server to the current loop. */
static VALUE rb_nb_core_start(VALUE self)
{
    nb_server_t *server = server_of(self);
    server->loop = nb_loop_current();
    if (!server->loop)
        rb_raise(rb_path2class("NB::NoSchedulerError"),
                 "NB::Server needs a loop: call it inside NB.run { }");
    server->started = server->accepting = true;
    server->draining = server->waking = false; /* it may have run before */
    nb_server_watch_forks(server);
    if (server->options.collect)
        nb_server_collect_at_rest(server);
    return self;
}

/* @!visibility private */
static VALUE rb_nb_core_listen(VALUE self, VALUE fd, VALUE local, VALUE https, VALUE port)
{
    int result = nb_listener_add(started_server_of(self), NUM2INT(fd), RTEST(local), RTEST(https),
                                 (uint16_t)NUM2UINT(port));
    if (result < 0)
        rb_syserr_fail(-result, "NB::Server: adding a listener");
    return self;
}

/* The client's, where it says anything: a link-local address has the interface behind it, as in
 * fe80::1%eth0. Returns the family, or 0. */
static uint8_t read_address(const char *text, unsigned char *peer)
{
    char bare[INET6_ADDRSTRLEN];
    size_t size = strcspn(text, "%");
    uint8_t family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (size >= sizeof(bare))
        return 0;
    memcpy(bare, text, size);
    bare[size] = '\0';
    return inet_pton(family, bare, peer) == 1 ? family : 0;
}

/* @!visibility private - a connection that others accepted (TLS); address: String, the client's.
 * Returns the Transport; false without memory, or without an address, which would mean: local. */
static VALUE rb_nb_core_adopt(VALUE self, VALUE fd, VALUE https, VALUE address)
{
    nb_server_t *server = server_of(self);
    nb_arrival_t arrival = {.local = true, .https = RTEST(https)};
    unsigned char peer[16] = {0};
    uint8_t family = read_address(StringValueCStr(address), peer);
    if (!server->started || !family) { /* its handshake took longer than the server lived */
        close(NUM2INT(fd));
        return Qfalse;
    }
    int flags = fcntl(NUM2INT(fd), F_GETFL);
    fcntl(NUM2INT(fd), F_SETFL, flags | O_NONBLOCK);
    nb_conn_t *conn = nb_conn_open(server, NUM2INT(fd), &arrival);
    if (!conn)
        return Qfalse;
    VALUE transport = nb_transport_new(conn);
    conn->family = family;
    memcpy(conn->peer, peer, sizeof(peer));
    server->counters.accepted++;
    return transport;
}

/* @!visibility private - bytes that the client of a TLS socket has not acknowledged. */
static VALUE rb_nb_core_unacknowledged(VALUE self, VALUE fd)
{
    (void)self;
    return INT2NUM(nb_unacknowledged_bytes(NUM2INT(fd)));
}

/* @!visibility private - a TLS client was cut off for its slowness. */
static VALUE rb_nb_core_count_timeout(VALUE self)
{
    server_of(self)->counters.timeouts++;
    return self;
}

/* @!visibility private - see #leave; backlog: the largest of a listener, at which the kernel lets
 *   one more wait. */
static VALUE rb_nb_core_accept_last(VALUE self, VALUE backlog)
{
    nb_server_t *server = server_of(self);
    server->accepting = false;
    if (!server->started)
        return Qtrue;
    if (!nb_listener_accept_rest(server, NUM2SIZET(backlog) + 1))
        return Qfalse;
    nb_listener_close_all(server);
    return Qtrue;
}

/* @!visibility private - makes the kernel refuse new connections at a TCP listener. */
static VALUE rb_nb_core_refuse(VALUE klass, VALUE fd)
{
    int result = nb_refuse_connections(NUM2INT(fd));
    (void)klass;
    if (result < 0)
        rb_syserr_fail(-result, "NB::Server: refusing connections");
    return Qnil;
}

/* @!visibility private - accepts no more connections; each ends after its next answer, or soon. */
static VALUE rb_nb_core_drain(VALUE self)
{
    nb_server_t *server = server_of(self);
    nb_list_t *item = server->connections.next;
    server->accepting = false;
    server->draining = true;
    while (item != &server->connections) {
        nb_conn_t *conn = nb_container_of(item, nb_conn_t, link);
        item = item->next;
        if (conn->state == NB_CONN_IDLE)
            nb_conn_idle(conn);
    }
    return self;
}

/* @!visibility private - waits up to timeout seconds until no connection or request is left. */
static VALUE rb_nb_core_join(VALUE self, VALUE timeout)
{
    nb_server_t *server = server_of(self);
    nb_park_t park;
    int state = 0;
    if (is_drained(server) || (server->draining && !server->started)) /* a second stop came */
        return is_drained(server) ? Qtrue : Qfalse;
    started_server_of(self);
    nb_park_init(server->loop, &park, NB_PARK_BLOCK);
    park.blocker = self;
    uint64_t ns = nanoseconds(timeout);
    nb_park_deadline(&park, ns == NB_NEVER ? NB_NEVER : nb_loop_clock(server->loop) + ns);
    server->joiner = &park;
    rb_protect(nb_park_value, (VALUE)&park, &state);
    server->joiner = NULL;
    if (state)
        rb_jump_tag(state);
    return is_drained(server) ? Qtrue : Qfalse;
}

/* @!visibility private - cancels running requests, closes open connections, ends the workers. */
static VALUE rb_nb_core_stop(VALUE self, VALUE error)
{
    nb_server_t *server = server_of(self);
    if (!server->started)
        return self;
    rb_nb_core_drain(self);
    nb_listener_close_all(server);
    server->started = false;
    for (nb_list_t *item = server->running.next; item != &server->running; item = item->next) {
        nb_request_t *request = nb_container_of(item, nb_request_t, link);
        if (request->fiber != rb_fiber_current())
            nb_interrupt(server->loop, request->fiber, error);
    }
    while (!nb_list_empty(&server->connections))
        nb_conn_close(nb_container_of(server->connections.next, nb_conn_t, link));
    if (server->joiner) /* whatever the requests make of their error */
        nb_wake(server->joiner, NB_WOKEN);
    while (!nb_list_empty(&server->idle)) {
        nb_worker_t *worker = nb_container_of(server->idle.next, nb_worker_t, link);
        nb_list_remove(&worker->link);
        nb_wake(worker->park, NB_WOKEN);
    }
    nb_timers_remove(&server->loop->timers, &server->accept_timer);
    nb_timers_remove(&server->loop->timers, &server->later_timer);
    nb_timers_remove(&server->loop->timers, &server->queue_timer);
    nb_list_remove(&server->flush_hook.link);
    nb_list_remove(&server->kick_hook.link);
    nb_list_remove(&server->fork_hook.link);
    nb_list_remove(&server->rest_hook.link);
    return self;
}

void Init_nb_server(VALUE mNB)
{
    rb_mNBServer = rb_define_class_under(mNB, "Server", rb_cObject);
    rb_gc_register_mark_object(rb_mNBServer);
    rb_cNBServerCore = rb_define_class_under(rb_mNBServer, "Core", rb_cObject);
    rb_define_alloc_func(rb_cNBServerCore, core_alloc);
    rb_define_method(rb_cNBServerCore, "configure", rb_nb_core_configure, 3);
    rb_define_method(rb_cNBServerCore, "start", rb_nb_core_start, 0);
    rb_define_method(rb_cNBServerCore, "listen", rb_nb_core_listen, 4);
    rb_define_method(rb_cNBServerCore, "adopt", rb_nb_core_adopt, 3);
    rb_define_method(rb_cNBServerCore, "unacknowledged", rb_nb_core_unacknowledged, 1);
    rb_define_method(rb_cNBServerCore, "count_timeout", rb_nb_core_count_timeout, 0);
    rb_define_singleton_method(rb_cNBServerCore, "refuse", rb_nb_core_refuse, 1);
    rb_define_method(rb_cNBServerCore, "accept_last", rb_nb_core_accept_last, 1);
    rb_define_method(rb_cNBServerCore, "drain", rb_nb_core_drain, 0);
    rb_define_method(rb_cNBServerCore, "join", rb_nb_core_join, 1);
    rb_define_method(rb_cNBServerCore, "stop", rb_nb_core_stop, 1);
    nb_transport_init(rb_mNBServer);
    nb_stats_init();
    nb_timing_init();
    nb_env_init();
    nb_input_init();
    nb_exchange_init(rb_mNBServer);
    nb_response_init();
    nb_response_parts_init();
    nb_request_init();
}
