/* exchange.c - what an application may do with its request besides env and triple. Uses ruby.h.
 *
 * NB::Server::Exchange is rack.hijack, the input of the lazy body and, in response_parts.c, the
 * output of bodies and streams, and the early hints. It forgets the request when the request ends;
 * a call after that raises IOError. Calls from other threads run in the loop's own, through
 * NB::Server::LoopCalls.
 *
 * Read after: exchange.h.
 */
#include "server/exchange.h"
#include "base/clock.h"
#include "loop/wait.h"
#include "server/deadline.h"
#include "server/events.h"
#include "server/input.h"
#include "server/output.h"
#include <ruby/io.h>
#include <string.h>
#include <sys/socket.h>

VALUE rb_cNBServerExchange;

/* The request lies on its worker's stack; nothing here is marked or freed. */
static const rb_data_type_t exchange_type = {
    .wrap_struct_name = "NB::Server::Exchange",
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE nb_exchange_new(nb_request_t *request)
{
    return TypedData_Wrap_Struct(rb_cNBServerExchange, &exchange_type, request);
}

void nb_exchange_end(VALUE exchange)
{
    RTYPEDDATA_DATA(exchange) = NULL;
}

static nb_request_t *request_of(VALUE self)
{
    nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    if (!request)
        rb_raise(rb_eIOError, "this request has finished; its socket and stream are closed");
    return request;
}

bool nb_exchange_is_elsewhere(const nb_request_t *request)
{
    return rb_thread_current() != request->conn->server->loop->thread;
}

VALUE nb_exchange_in_loop(VALUE self, const nb_request_t *request, const char *name, VALUE argument)
{
    VALUE arguments[] = {self, ID2SYM(rb_intern(name)), argument};
    return rb_funcallv(request->conn->server->self, rb_intern("call_in_loop"),
                       argument == Qundef ? 2 : 3, arguments);
}

nb_request_t *nb_exchange_request(VALUE self)
{
    nb_request_t *request = request_of(self);
    if (request->hijacked)
        rb_raise(rb_eIOError, "the socket was hijacked");
    if (request->conn->state == NB_CONN_CLOSED)
        rb_syserr_fail(EPIPE, "the client is gone");
    return request;
}

bool nb_exchange_is_lost(VALUE self)
{
    const nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    return request && request->conn->state == NB_CONN_CLOSED && !request->hijacked;
}

static VALUE socket_of(int fd, bool local)
{
    VALUE socket = rb_path2class(local ? "UNIXSocket" : "TCPSocket");
    rb_update_max_fd(fd);
    VALUE io = rb_funcall(socket, rb_intern("for_fd"), 1, INT2NUM(fd));
    rb_funcall(io, rb_intern("sync="), 1, Qtrue);
    return io;
}

/* What the client sent and nobody has read: the next bytes of the socket. A chunked body has lost
 * its framing, so nobody could tell where it ends. */
static VALUE unread_bytes(VALUE self)
{
    VALUE bytes = rb_str_new(NULL, 0), input = nb_exchange_request(self)->input;
    if (input)
        rb_str_append(bytes, rb_funcall(input, rb_intern("unread"), 0));
    nb_conn_t *conn = nb_exchange_request(self)->conn; /* the client may be gone after Ruby code */
    nb_body_t *body = conn->body;
    if (body)
        nb_body_copy(body, bytes);
    if (body && body->is_chunked && (!body->complete || RSTRING_LEN(bytes)))
        rb_raise(rb_eIOError, "a request with an unread chunked body cannot be hijacked: "
                              "read rack.input to its end first");
    rb_str_cat(bytes, conn->in.bytes, (long)conn->in.size);
    return bytes;
}

/* @!visibility private - the socket as an IO; bytes that were already read are pushed back. What
 *   was written before, such as early hints, is sent first. */
static VALUE rb_nb_exchange_detach(VALUE self)
{
    nb_request_t *request = nb_exchange_request(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "detach", Qundef);
    if (!nb_output_empty(request->conn))
        nb_conn_drain(request->conn);
    VALUE unread = unread_bytes(self);
    request = nb_exchange_request(self);
    bool local = request->conn->local;
    request->hijacked = true;
    VALUE io = socket_of(nb_conn_detach(request->conn), local);
    if (RSTRING_LEN(unread)) {
        rb_funcall(io, rb_intern("ungetbyte"), 1, unread);
        rb_extend_object(io, rb_const_get(rb_mNBServer, rb_intern("EarlyBytes")));
    }
    return io;
}

/* @overload call
 *   Full hijack (Rack): takes the socket out of the server; the application's return value is
 *   ignored.
 *   @return [TCPSocket, UNIXSocket] also in env["rack.hijack_io"]
 *   @raise [IOError] if the request has ended
 *   @scheduling may wait, for a client that does not take the early hints
 *   @thread any */
static VALUE rb_nb_exchange_call(VALUE self)
{
    nb_request_t *request = request_of(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "call", Qundef);
    VALUE key = rb_str_new_cstr("rack.hijack_io"), env = request->env;
    if (request->hijacked)
        return rb_hash_aref(env, key);
    VALUE io = rb_nb_exchange_detach(self);
    request = rb_check_typeddata(self, &exchange_type);
    if (request) /* else it has ended, and its stack may be another's */
        request->socket = io;
    rb_hash_aset(env, key, io);
    return io;
}

/* @overload client_gone?
 *   @return [Boolean] whether the client has closed its side, or the request has ended
 *   @scheduling never waits */
static VALUE rb_nb_exchange_client_gone_p(VALUE self)
{
    const nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    return !request || request->gone || nb_exchange_is_lost(self) ? Qtrue : Qfalse;
}

/* @!visibility private - the NB::Server::Core that the request came to; nil after the request */
static VALUE rb_nb_exchange_core(VALUE self)
{
    nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    return request ? request->conn->server->self : Qnil;
}

/* A body that is called, or whose each reads the request's, does so when the head of the response
 * is made: as long as that waits, this goes before it. */
static void send_continue(nb_conn_t *conn, nb_request_t *request)
{
    size_t head = nb_request_waiting_head(request);
    if (!conn->body->held)
        return;
    if (request->head_sent && !head) /* the client knows that nobody waited for its body */
        conn->body->held = false;
    else if (nb_reader_ask(conn, head) < 0)
        nb_conn_close(conn);
    else
        nb_conn_flush(conn);
}

/* Reads what has arrived. Returns 0, or the status for a body that cannot become complete. */
static int receive_body(nb_conn_t *conn)
{
    ssize_t size = nb_reader_receive(conn);
    if (size <= 0)
        return size == 0 ? 0 : 400;
    ssize_t used = nb_body_feed(conn, conn->server->scratch, (size_t)size);
    if (used < 0)
        return (int)-used;
    if (used < size &&
        nb_buffer_append(&conn->in, conn->server->scratch + used, (size_t)(size - used)) < 0)
        return 503;
    return 0;
}

/* Returns 0, or the status for a client that is too slow. */
static int wait_for_body(nb_conn_t *conn)
{
    conn->body->since_ns = nb_loop_clock(conn->server->loop);
    nb_waited_t waited = nb_conn_wait(conn, NB_DUE_BODY, nb_body_patience(conn));
    if (waited == NB_WAITED_IN_VAIN)
        rb_syserr_fail(EPIPE, "the client is gone");
    if (conn->body)
        nb_body_expected(conn, nb_loop_clock(conn->server->loop));
    return waited == NB_WAITED ? 0 : 408;
}

static const char *error_name(int status)
{
    switch (status) {
    case 408:
        return "BodyTimeoutError";
    case 413:
        return "BodyTooLargeError";
    case 431:
        return "BodyFieldsTooLargeError";
    case 503:
        return "BodyRoomError";
    case 507:
        return "BodyStorageError";
    default:
        return "BodyError";
    }
}

static void raise_refused(const nb_request_t *request)
{
    VALUE klass = rb_const_get(rb_mNBServer, rb_intern(error_name(request->refused_body)));
    const char *text = nb_body_text(request->refused_body);
    if (request->refused_body == 507)
        rb_raise(klass, "%s: %s", text, strerror(request->conn->server->body_errno));
    rb_raise(klass, "%s", text);
}

/* Takes the next bytes of the body. Other fibers may do so, too: when this one continues, the body
 * may be complete, refused or gone. */
static void fetch_body(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    if (!request->refused_body)
        send_continue(conn, request);
    if (conn->state == NB_CONN_CLOSED)
        rb_syserr_fail(EPIPE, "the client is gone");
    if (!request->refused_body && !conn->readable) {
        int status = wait_for_body(conn);
        request->refused_body = request->refused_body ? request->refused_body : status;
    }
    if (!request->refused_body && nb_body_missing(conn))
        request->refused_body = receive_body(conn);
    if (!nb_body_missing(conn)) {
        nb_input_arrived(conn->server, request);
        nb_conn_tell_gone(conn);
    }
    if (request->refused_body || !nb_body_missing(conn))
        nb_conn_wake_waiters(conn, NB_READABLE); /* no event need come any more */
    if (request->refused_body) {
        conn->keep = false;
        raise_refused(request);
    }
}

/* The reading side of the stream was closed, perhaps while this fiber waited. */
static void check_input(const nb_request_t *request)
{
    if (request->input_closed)
        rb_raise(rb_eIOError, "stream closed in another thread"); /* as IO#close has it */
}

/* @!visibility private - nobody reads the request's body any more; who does, raises IOError. */
static VALUE rb_nb_exchange_close_input(VALUE self)
{
    nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    if (!request || request->hijacked || request->conn->state == NB_CONN_CLOSED)
        return Qnil;
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "close_input", Qundef);
    request->input_closed = true;
    nb_conn_wake_waiters(request->conn, NB_READABLE);
    return Qnil;
}

/* @!visibility private - the body that the client holds back until "100 Continue". */
static VALUE rb_nb_exchange_body(VALUE self)
{
    nb_request_t *request = nb_exchange_request(self);
    nb_conn_t *conn = request->conn;
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "body", Qundef);
    while (nb_body_missing(conn)) {
        check_input(request);
        fetch_body(request);
        nb_eager(conn->server->loop);
        request = nb_exchange_request(self);
    }
    if (conn->body) { /* NULL if another fiber has fetched it */
        VALUE input = nb_body_input(conn);
        request = nb_exchange_request(self);
        request->fetched = input;
    }
    if (RB_TYPE_P(request->fetched, T_FILE))
        request->input_file = request->fetched;
    return request->fetched;
}

/* @!visibility private - what has arrived of a streamed body, at least one byte; nil at its end. */
static VALUE rb_nb_exchange_body_part(VALUE self)
{
    nb_request_t *request = nb_exchange_request(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "body_part", Qundef);
    nb_eager(request->conn->server->loop); /* a fast client must not starve the others */
    request = nb_exchange_request(self);
    nb_conn_t *conn = request->conn;
    while (conn->body && !conn->body->memory.size && !conn->body->complete) {
        check_input(request);
        fetch_body(request);
        request = nb_exchange_request(self);
    }
    return conn->body ? nb_body_part(conn) : Qnil;
}

void nb_exchange_init(VALUE server_module)
{
    VALUE klass = rb_cNBServerExchange =
        rb_define_class_under(server_module, "Exchange", rb_cObject);
    rb_undef_alloc_func(klass);
    rb_define_method(klass, "call", rb_nb_exchange_call, 0);
    rb_define_method(klass, "client_gone?", rb_nb_exchange_client_gone_p, 0);
    rb_define_method(klass, "core", rb_nb_exchange_core, 0);
    rb_define_method(klass, "detach", rb_nb_exchange_detach, 0);
    rb_define_method(klass, "body", rb_nb_exchange_body, 0);
    rb_define_method(klass, "body_part", rb_nb_exchange_body_part, 0);
    rb_define_method(klass, "close_input", rb_nb_exchange_close_input, 0);
}
