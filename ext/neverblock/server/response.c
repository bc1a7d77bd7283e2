/* response.c - from the application's triple to bytes. Uses ruby.h.
 *
 * nb_response_send decides how the body is sent: not at all, an Array by one writev, a file by
 * sendfile, an enumerable in chunks collected until the end of the tick, or by a block that gets
 * the stream.
 *
 * Read after: response.h, response_head.h, response_file.h, response_parts.h.
 */
#include "server/response.h"
#include "http/status.h"
#include "server/body.h"
#include "server/date.h"
#include "server/output.h"
#include "server/response_file.h"
#include "server/response_head.h"
#include "server/response_parts.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static ID id_each, id_call, id_close, id_to_ary, id_to_s, id_to_i;

static void write_parts(nb_request_t *request, struct iovec *iov, const VALUE *owners, int count)
{
    nb_conn_write(request->conn, iov, owners, count);
    request->ended = true;
    nb_response_head_give_back(request);
}

static uint64_t array_size(VALUE array)
{
    uint64_t size = 0;
    for (long i = 0; i < RARRAY_LEN(array); i++) {
        VALUE part = RARRAY_AREF(array, i);
        if (!RB_TYPE_P(part, T_STRING))
            rb_raise(rb_eTypeError, "a body must contain only Strings, got: %" PRIsVALUE,
                     rb_inspect(part));
        size += (uint64_t)RSTRING_LEN(part);
    }
    return size;
}

/* Sends head and strings in one system call. */
static void send_array(nb_response_head_t *head, VALUE array)
{
    nb_request_t *request = head->request;
    uint64_t size = array_size(array);
    bool whole = nb_response_has_body(request);
    long count = whole ? RARRAY_LEN(array) : 0;
    if (whole && !head->coded && head->length != NB_LENGTH_UNKNOWN && head->length != size)
        rb_raise(rb_eArgError, "content-length is %llu, but the body has %llu bytes",
                 (unsigned long long)head->length, (unsigned long long)size);
    /* HEAD gets what a GET would get; an empty body may be Rack::Head's doing. */
    if (!whole &&
        (nb_status_forbids_body(request->status) || !size || head->length != NB_LENGTH_UNKNOWN))
        size = NB_LENGTH_UNKNOWN;
    nb_response_head_finish(head, size);
    VALUE iov_buffer = 0, owners_buffer = 0;
    struct iovec *iov = ALLOCV_N(struct iovec, iov_buffer, count + 1);
    VALUE *owners = ALLOCV_N(VALUE, owners_buffer, count + 1);
    iov[0] = (struct iovec){.iov_base = request->head.bytes, .iov_len = request->head.size};
    owners[0] = 0;
    for (long i = 0; i < count; i++) {
        owners[i + 1] = RARRAY_AREF(array, i);
        iov[i + 1] = (struct iovec){.iov_base = RSTRING_PTR(owners[i + 1]),
                                    .iov_len = (size_t)RSTRING_LEN(owners[i + 1])};
    }
    write_parts(request, iov, owners, (int)count + 1);
    ALLOCV_END(iov_buffer);
    ALLOCV_END(owners_buffer);
    RB_GC_GUARD(array);
}

static void send_head(nb_response_head_t *head, uint64_t size)
{
    nb_request_t *request = head->request;
    nb_response_head_finish(head, size);
    struct iovec iov = {.iov_base = request->head.bytes, .iov_len = request->head.size};
    VALUE owner = 0;
    write_parts(request, &iov, &owner, 1);
}

/* Like send_head, but the bytes wait for those of the body. While the client holds its own body
 * back they wait longer than to the end of the tick: whoever makes the response may still read, and
 * asking the client goes before them. */
static void collect_head(nb_response_head_t *head, uint64_t size)
{
    nb_request_t *request = head->request;
    nb_response_head_finish(head, size);
    request->sent_before = request->sent_bytes;
    request->head_bytes = request->head.size;
    nb_conn_collect(request->conn, request->head.bytes, request->head.size);
    if (nb_body_missing(request->conn) && request->conn->body->held)
        nb_output_hold(request->conn);
    nb_response_head_give_back(request);
}

bool nb_response_take_back(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    size_t head = nb_request_waiting_head(request);
    if (head && conn->state != NB_CONN_CLOSED && nb_output_drop(conn, head)) {
        nb_conn_until_close(conn, false);
        request->head_sent = false;
    }
    return !request->head_sent;
}

static bool send_file(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    nb_response_file_t file;
    if (!nb_response_file_open(&file, head, body))
        return false;
    collect_head(head, file.size);
    request->head_bytes = 0;
    if (!file.size)
        close(file.fd);
    else
        nb_conn_write_file(request->conn, file.fd, file.at, file.size);
    request->ended = true;
    return true;
}

/* HEAD gets the size of a file, as GET would: who downloads it in parts asks for that first. */
static void send_head_only(nb_response_head_t *head, VALUE body)
{
    nb_response_file_t file = {.size = NB_LENGTH_UNKNOWN};
    if (!nb_status_forbids_body(head->request->status) && nb_response_file_open(&file, head, body))
        close(file.fd);
    send_head(head, file.size);
}

/* The block may be kept, and called when the request, which lies on a stack, is gone. */
static VALUE each_part(RB_BLOCK_CALL_FUNC_ARGLIST(part, exchange))
{
    nb_exchange_write(exchange, part);
    return Qnil;
}

static void send_enumerable(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    collect_head(head, NB_LENGTH_UNKNOWN);
    request->writing = true;
    rb_block_call(body, id_each, 0, NULL, each_part, request->exchange);
    nb_response_end(request);
}

static VALUE call_with(VALUE argument)
{
    VALUE *values = (VALUE *)argument;
    return rb_funcallv(values[0], id_call, 1, values + 1);
}

/* The head is sent, and the socket with all further bytes is the application's. */
static void hand_socket_over(nb_response_head_t *head, VALUE callable)
{
    nb_request_t *request = head->request;
    send_head(head, NB_LENGTH_UNKNOWN);
    nb_conn_drain(request->conn);
    VALUE values[] = {callable, rb_funcall(request->exchange, rb_intern("detach"), 0)};
    int failed = 0;
    rb_protect(call_with, (VALUE)values, &failed);
    if (!failed)
        return;
    rb_io_close(values[1]); /* otherwise nobody does, and the client waits */
    rb_jump_tag(failed);
}

/* Rack 3: the body is called with a stream; for status 101, with the socket. */
static void send_stream(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    if (!rb_respond_to(body, id_call))
        rb_raise(rb_eTypeError,
                 "status 101 goes with a body that is called with the socket: "
                 "%" PRIsVALUE,
                 rb_inspect(body));
    if (request->status == 101) {
        hand_socket_over(head, body);
        return;
    }
    collect_head(head, NB_LENGTH_UNKNOWN);
    request->writing = true;
    VALUE input = rb_hash_aref(request->env, rb_str_new_cstr("rack.input"));
    VALUE stream = rb_funcall(rb_const_get(rb_mNBServer, rb_intern("Stream")), rb_intern("new"), 2,
                              request->exchange, input);
    rb_funcallv(body, id_call, 1, &stream);
    rb_funcall(stream, rb_intern("wait"), 0);
    nb_response_end(request);
}

static void send_body(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    VALUE array = RB_TYPE_P(body, T_ARRAY) ? body : Qnil;
    /* Who has the length needs no array. Rails' body before 8.1 has a to_ary that raises if it is a
     * part of a file; Puma does not call it then, either. */
    if (NIL_P(array) && head->length == NB_LENGTH_UNKNOWN && !head->coded &&
        rb_respond_to(body, id_to_ary))
        array = rb_funcallv(body, id_to_ary, 0, NULL);
    if (RB_TYPE_P(array, T_ARRAY) && request->unchunks && nb_response_has_body(request))
        send_enumerable(head, array);
    else if (RB_TYPE_P(array, T_ARRAY))
        send_array(head, array);
    else if (!nb_response_has_body(request))
        send_head_only(head, body);
    else if (send_file(head, body))
        return;
    else if (rb_respond_to(body, id_each))
        send_enumerable(head, body);
    else if (rb_respond_to(body, id_call))
        send_stream(head, body);
    else
        rb_raise(rb_eTypeError, "not a Rack body (each, call or to_path): %" PRIsVALUE,
                 rb_inspect(body));
}

typedef struct {
    nb_response_head_t head;
    VALUE status, headers, body;
} send_t;

static void set_status(nb_request_t *request, VALUE status)
{
    int number = RB_INTEGER_TYPE_P(status) ? NUM2INT(status)
                                           : NUM2INT(rb_funcallv(status, id_to_i, 0, NULL));
    if ((number < 200 && number != 101) || number > 999)
        rb_raise(rb_eArgError, "not a final status: %d", number);
    request->status = number;
}

static VALUE send_protected(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    set_status(request, send->status);
    nb_response_head_begin(&send->head, send->headers);
    if (request->status != 101 && !nb_response_has_body(request))
        send->head.hijack = Qnil; /* what it wrote, the client would take for the next response */
    if (RTEST(send->head.hijack))
        hand_socket_over(&send->head, send->head.hijack);
    else if (request->status == 101)
        send_stream(&send->head, send->body);
    else
        send_body(&send->head, send->body);
    return Qnil;
}

/* An Array has no close, unless somebody defined one. */
static void close_body(VALUE body)
{
    if ((SPECIAL_CONST_P(body) || RBASIC_CLASS(body) != rb_cArray) && rb_respond_to(body, id_close))
        rb_funcallv(body, id_close, 0, NULL);
}

static VALUE clean_up(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    request->writing = false;
    if (request->head.bytes)
        nb_buffer_free(&request->head);
    nb_response_take_back(request); /* if it has failed: what comes now may wait, and send it */
    close_body(send->body);
    return Qnil;
}

/* The socket was hijacked or its client is gone: nobody gets the body, but it must be closed. */
void nb_response_discard(VALUE triple)
{
    if (RB_TYPE_P(triple, T_ARRAY))
        close_body(rb_ary_entry(triple, 2));
    RB_GC_GUARD(triple);
}

void nb_response_send(nb_request_t *request, VALUE triple)
{
    triple = rb_check_array_type(triple);
    if (NIL_P(triple) || RARRAY_LEN(triple) < 3)
        rb_raise(rb_eTypeError, "the application returned no [status, headers, body]");
    /* Reads all three first: the status may be an object whose to_i changes the triple. */
    request->headers = RARRAY_AREF(triple, 1);
    request->body = RARRAY_AREF(triple, 2);
    send_t send = {.head = {.request = request},
                   .status = RARRAY_AREF(triple, 0),
                   .headers = request->headers,
                   .body = request->body};
    rb_ensure(send_protected, (VALUE)&send, clean_up, (VALUE)&send);
    RB_GC_GUARD(triple);
}

/* An answer of our own, if none has begun. */
void nb_response_error(nb_request_t *request, int status, const char *text)
{
    nb_conn_t *conn = request->conn;
    char answer[400];
    if (conn->state == NB_CONN_CLOSED)
        return;
    request->status = status;
    if (nb_body_missing(conn) || conn->server->draining)
        conn->keep = false;
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 %d %s\r\ndate: %s\r\ncontent-type: text/plain\r\n"
                        "content-length: %zu\r\nconnection: %s\r\n\r\n%s\n",
                        status, nb_status_text(status), nb_server_date(conn->server),
                        strlen(text) + 1, conn->keep ? "keep-alive" : "close", text);
    if (request->head_request)
        size -= (int)strlen(text) + 1;
    request->head_sent = true;
    request->answered_ns = nb_loop_clock(conn->server->loop);
    request->framing = NB_FRAMING_LENGTH;
    nb_conn_collect(conn, answer, (size_t)size);
}

void nb_response_init(void)
{
    nb_response_head_init();
    id_each = rb_intern("each");
    id_call = rb_intern("call");
    id_close = rb_intern("close");
    id_to_ary = rb_intern("to_ary");
    nb_response_file_init();
    id_to_s = rb_intern("to_s");
    id_to_i = rb_intern("to_i");
}
