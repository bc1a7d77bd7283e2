/* exchange.c - what an application may do with its request beyond env and triple. Ruby.
 *
 * NB::Server::Exchange is rack.hijack, the early hints, the stream's way out and the lazy body's
 * way in. It forgets the request when the request ends; a call after that raises IOError.
 *
 * Read after: server.h, response.c. Used by: env.c, worker.c.
 */
#include "server/server.h"
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
        rb_raise(rb_eIOError, "the request has ended: its socket and stream are no longer here");
    return request;
}

static nb_request_t *open_request_of(VALUE self)
{
    nb_request_t *request = request_of(self);
    if (request->hijacked)
        rb_raise(rb_eIOError, "the socket was hijacked");
    if (request->conn->state == NB_CONN_CLOSED)
        rb_syserr_fail(EPIPE, "the client is gone");
    return request;
}

static VALUE socket_of(int fd, bool local)
{
    VALUE socket = rb_path2class(local ? "UNIXSocket" : "TCPSocket");
    rb_update_max_fd(fd);
    VALUE io = rb_funcall(socket, rb_intern("for_fd"), 1, INT2NUM(fd));
    rb_funcall(io, rb_intern("sync="), 1, Qtrue);
    return io;
}

/* What came from the client and nobody has read: the next bytes of the socket. Of a chunked body
 * the frames are gone, so nobody could tell where it ends. */
static VALUE unread_bytes(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    nb_body_t *body = conn->body;
    VALUE bytes = rb_str_new(NULL, 0);
    if (request->input)
        rb_str_append(bytes, rb_funcall(request->input, rb_intern("unread"), 0));
    if (body)
        rb_str_cat(bytes, body->memory.bytes, (long)body->memory.size);
    if (body && body->is_chunked && (!body->complete || RSTRING_LEN(bytes)))
        rb_raise(rb_eIOError, "a request whose chunked body is not read cannot be hijacked: "
                              "read rack.input to its end before");
    rb_str_cat(bytes, conn->in.bytes, (long)conn->in.size);
    return bytes;
}

/* @!visibility private - the socket as an IO; bytes that were read already are pushed back. */
static VALUE rb_nb_exchange_detach(VALUE self)
{
    nb_request_t *request = open_request_of(self);
    VALUE unread = unread_bytes(request);
    bool local = request->conn->local;
    request->hijacked = true;
    VALUE io = socket_of(nb_conn_detach(request->conn), local);
    if (RSTRING_LEN(unread))
        rb_funcall(io, rb_intern("ungetbyte"), 1, unread);
    return io;
}

/* @overload call
 *   Full hijack (Rack): takes the socket out of the server; what the application returns then is
 *   not looked at.
 *   @return [TCPSocket, UNIXSocket] also in env["rack.hijack_io"]
 *   @raise [IOError] if the request has ended
 *   @scheduling never waits */
static VALUE rb_nb_exchange_call(VALUE self)
{
    nb_request_t *request = request_of(self);
    VALUE key = rb_str_new_cstr("rack.hijack_io");
    if (request->hijacked)
        return rb_hash_aref(request->env, key);
    VALUE io = rb_nb_exchange_detach(self);
    rb_hash_aset(request->env, key, io);
    return io;
}

/* @overload client_gone?
 *   @return [Boolean] whether the client has closed its side, or the request has ended
 *   @scheduling never waits */
static VALUE rb_nb_exchange_client_gone_p(VALUE self)
{
    nb_request_t *request = rb_check_typeddata(self, &exchange_type);
    return !request || request->gone || request->conn->state == NB_CONN_CLOSED ? Qtrue : Qfalse;
}

/* @overload early_hints(headers)
 *   Sends "103 Early Hints" before the response.
 *   @param headers [Hash{String=>String}] such as {"link" => "</a.css>; rel=preload"}
 *   @return [nil]
 *   @scheduling never waits */
static VALUE rb_nb_exchange_early_hints(VALUE self, VALUE headers)
{
    nb_response_early_hints(open_request_of(self), headers);
    return Qnil;
}

/* @!visibility private - one part of a streaming body. */
static VALUE rb_nb_exchange_write(VALUE self, VALUE string)
{
    nb_response_write(open_request_of(self), string);
    return SIZET2NUM((size_t)RSTRING_LEN(string));
}

/* @!visibility private */
static VALUE rb_nb_exchange_flush(VALUE self)
{
    nb_output_flush(open_request_of(self)->conn);
    return self;
}

static void send_continue(nb_conn_t *conn, nb_request_t *request)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!conn->body->held)
        return;
    conn->body->held = false;
    if (request->head_sent) /* the client knows by now that nobody waited for it */
        return;
    nb_output_collect(conn, text, sizeof(text) - 1);
    nb_output_flush(conn);
}

/* Reads what is there. Returns 0, or the status for a body that cannot become complete. */
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

/* Waits for the next bytes of the body. */
static void fetch_body(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    send_continue(conn, request);
    if (!conn->readable && !nb_conn_wait(conn, conn->server->options.body_timeout_ns))
        rb_syserr_fail(EPIPE, "the client is gone");
    request->refused_body = receive_body(conn);
    if (request->refused_body) {
        conn->keep = false;
        rb_raise(rb_const_get(rb_mNBServer, rb_intern("BodyError")),
                 "the request body ended early, is malformed or too large");
    }
}

/* @!visibility private - the body that the client holds back until "100 Continue". */
static VALUE rb_nb_exchange_body(VALUE self)
{
    nb_request_t *request = open_request_of(self);
    nb_conn_t *conn = request->conn;
    if (!conn->body)
        return Qnil;
    while (!conn->body->complete) {
        fetch_body(request);
        nb_eager(conn->server->loop);
        request = open_request_of(self);
    }
    VALUE input = nb_body_input(conn);
    if (RB_TYPE_P(input, T_FILE))
        request->input_file = input;
    return input;
}

/* @!visibility private - what has come of a streamed body, at least a byte; nil at its end. */
static VALUE rb_nb_exchange_body_part(VALUE self)
{
    nb_request_t *request = open_request_of(self);
    nb_eager(request->conn->server->loop); /* a fast client shall not keep the others out */
    request = open_request_of(self);
    nb_conn_t *conn = request->conn;
    while (conn->body && !conn->body->memory.size && !conn->body->complete) {
        fetch_body(request);
        request = open_request_of(self);
    }
    return conn->body && conn->body->memory.size ? nb_body_part(conn) : Qnil;
}

void nb_exchange_init(VALUE server_module)
{
    VALUE klass = rb_cNBServerExchange =
        rb_define_class_under(server_module, "Exchange", rb_cObject);
    rb_undef_alloc_func(klass);
    rb_define_method(klass, "call", rb_nb_exchange_call, 0);
    rb_define_method(klass, "client_gone?", rb_nb_exchange_client_gone_p, 0);
    rb_define_method(klass, "early_hints", rb_nb_exchange_early_hints, 1);
    rb_define_method(klass, "detach", rb_nb_exchange_detach, 0);
    rb_define_method(klass, "write", rb_nb_exchange_write, 1);
    rb_define_method(klass, "flush", rb_nb_exchange_flush, 0);
    rb_define_method(klass, "body", rb_nb_exchange_body, 0);
    rb_define_method(klass, "body_part", rb_nb_exchange_body_part, 0);
}
