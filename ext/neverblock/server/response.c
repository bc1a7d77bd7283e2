/* response.c - from the application's triple to bytes. Ruby.
 *
 * nb_response_send decides how the body goes out: nothing, an Array by one writev, a file by
 * sendfile, an enumerable in chunks collected until the end of the tick, a block that is given the
 * stream.
 *
 * Read after: server.h, response_head.h. Used by: worker.c, exchange.c.
 */
#include "server/response_head.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define DIRECT_BYTES 16384 /* a chunk as large as this is not copied into the collecting buffer */
#define STACK_PARTS 64

static ID id_each, id_call, id_close, id_to_ary, id_to_path, id_to_s, id_to_i;

static void write_parts(nb_request_t *request, struct iovec *iov, const VALUE *owners, int count)
{
    nb_output_write(request->conn, iov, owners, count);
    nb_response_head_give_back(request);
}

static uint64_t array_size(VALUE array)
{
    uint64_t size = 0;
    for (long i = 0; i < RARRAY_LEN(array); i++) {
        VALUE part = RARRAY_AREF(array, i);
        if (!RB_TYPE_P(part, T_STRING))
            rb_raise(rb_eTypeError, "a body must have Strings only, got: %" PRIsVALUE,
                     rb_inspect(part));
        size += (uint64_t)RSTRING_LEN(part);
    }
    return size;
}

/* Head and strings leave in one system call. */
static void send_array(nb_response_head_t *head, VALUE array)
{
    nb_request_t *request = head->request;
    uint64_t size = array_size(array);
    bool nothing = request->bodiless;
    long count = nothing ? 0 : RARRAY_LEN(array);
    if (!nothing && !request->raw) {
        if (head->has_length && head->length != size)
            rb_raise(rb_eArgError, "content-length is %llu, but the body has %llu bytes",
                     (unsigned long long)head->length, (unsigned long long)size);
        head->length = size;
        head->has_length = true;
    } else if (request->head_request && size && !head->has_length && !request->raw &&
               !nb_status_forbids_body(request->status)) {
        head->length = size; /* what a GET would get; no bytes may be Rack::Head's doing */
        head->has_length = true;
    }
    nb_response_head_finish(head);
    struct iovec stack_iov[STACK_PARTS], *iov = stack_iov;
    VALUE stack_owners[STACK_PARTS], *owners = stack_owners, iov_buffer = 0, owners_buffer = 0;
    if (count + 1 > STACK_PARTS) {
        iov = rb_alloc_tmp_buffer(&iov_buffer, (count + 1) * (long)sizeof(*iov));
        owners = rb_alloc_tmp_buffer(&owners_buffer, (count + 1) * (long)sizeof(*owners));
    }
    iov[0] = (struct iovec){.iov_base = request->head.bytes, .iov_len = request->head.size};
    owners[0] = 0;
    for (long i = 0; i < count; i++) {
        owners[i + 1] = RARRAY_AREF(array, i);
        iov[i + 1] = (struct iovec){.iov_base = RSTRING_PTR(owners[i + 1]),
                                    .iov_len = (size_t)RSTRING_LEN(owners[i + 1])};
    }
    write_parts(request, iov, owners, (int)count + 1);
    if (iov_buffer) {
        rb_free_tmp_buffer(&iov_buffer);
        rb_free_tmp_buffer(&owners_buffer);
    }
    RB_GC_GUARD(array);
}

static void send_head(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    nb_response_head_finish(head);
    struct iovec iov = {.iov_base = request->head.bytes, .iov_len = request->head.size};
    VALUE owner = 0;
    write_parts(request, &iov, &owner, 1);
}

/* Like send_head, but the bytes wait for those of the body. */
static void collect_head(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    nb_response_head_finish(head);
    nb_output_collect(request->conn, request->head.bytes, request->head.size);
    nb_response_head_give_back(request);
}

/* The file is opened by us, so that the application's body can be closed at once. */
static bool send_file(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    /* Rails' send_file hands on what it was given, which may be a Pathname. */
    VALUE path = rb_get_path(rb_funcallv(body, id_to_path, 0, NULL));
    struct stat status;
    int file = open(StringValueCStr(path), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) ||
        (head->has_length && head->length != (uint64_t)status.st_size)) {
        close(file); /* a part of it, or no plain file: the body's own each knows better */
        return false;
    }
    head->length = (uint64_t)status.st_size;
    head->has_length = true;
    collect_head(head);
    if (!status.st_size)
        close(file);
    else
        nb_output_file(request->conn, file, 0, head->length);
    return true;
}

static void check_length(nb_request_t *request, uint64_t size)
{
    if (!request->has_length || request->raw)
        return;
    if (size > request->length_left) {
        request->conn->keep = false;
        rb_raise(rb_eArgError, "the body is longer than its content-length");
    }
    request->length_left -= size;
}

/* A string too large to copy goes with what was collected before it. */
static void write_direct(nb_request_t *request, VALUE string, const char *frame, int frame_size)
{
    struct iovec iov[3] = {
        {.iov_base = (void *)(uintptr_t)frame, .iov_len = (size_t)frame_size},
        {.iov_base = RSTRING_PTR(string), .iov_len = (size_t)RSTRING_LEN(string)},
        {.iov_base = (void *)(uintptr_t) "\r\n", .iov_len = request->chunked ? 2 : 0},
    };
    VALUE owners[3] = {0, string, 0};
    nb_output_write(request->conn, iov, owners, 3);
}

void nb_response_write(nb_request_t *request, VALUE string)
{
    char frame[24];
    int frame_size = 0;
    nb_conn_t *conn = request->conn;
    if (!RB_TYPE_P(string, T_STRING))
        rb_raise(rb_eTypeError, "a body must yield Strings only, got: %" PRIsVALUE,
                 rb_inspect(string));
    size_t size = (size_t)RSTRING_LEN(string);
    uint64_t sent = request->sent_bytes;
    if (!size || request->bodiless) /* an empty chunk would be the last one */
        return;
    check_length(request, size);
    if (request->chunked)
        frame_size = snprintf(frame, sizeof(frame), "%zx\r\n", size);
    if (size >= DIRECT_BYTES) {
        write_direct(request, string, frame, frame_size);
    } else {
        nb_output_collect(conn, frame, (size_t)frame_size);
        nb_output_collect(conn, RSTRING_PTR(string), size);
        if (request->chunked)
            nb_output_collect(conn, "\r\n", 2);
    }
    if (conn->state == NB_CONN_CLOSED)
        rb_syserr_fail(EPIPE, "the client is gone");
    /* A client slower than the application holds it here. */
    if (!conn->writable && (nb_output_size(conn) >= NB_SCRATCH_BYTES || size >= DIRECT_BYTES))
        nb_output_drain(conn);
    else if (request->sent_bytes != sent) /* a client as fast as the application is not all */
        nb_eager(conn->server->loop);
    RB_GC_GUARD(string);
}

static VALUE each_part(RB_BLOCK_CALL_FUNC_ARGLIST(part, request))
{
    nb_response_write((nb_request_t *)request, part);
    return Qnil;
}

void nb_response_end(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    if (!conn || conn->state == NB_CONN_CLOSED)
        return;
    if (request->chunked && !request->bodiless)
        nb_output_collect(conn, "0\r\n\r\n", 5);
    else if (request->has_length && !request->bodiless && request->length_left) {
        conn->keep = false; /* the client sees that something is missing */
        rb_raise(rb_eArgError, "the body is %llu bytes shorter than its content-length",
                 (unsigned long long)request->length_left);
    }
}

static void send_enumerable(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    collect_head(head);
    rb_block_call(body, id_each, 0, NULL, each_part, (VALUE)request);
    nb_response_end(request);
}

static VALUE call_with(VALUE argument)
{
    VALUE *values = (VALUE *)argument;
    return rb_funcallv(values[0], id_call, 1, values + 1);
}

/* The head is out and the socket is the application's, bytes and all. */
static void hand_socket_over(nb_response_head_t *head, VALUE callable)
{
    nb_request_t *request = head->request;
    request->raw = true;
    request->conn->keep = false;
    head->has_connection = true;
    send_head(head);
    nb_output_drain(request->conn);
    VALUE values[] = {callable, rb_funcall(request->exchange, rb_intern("detach"), 0)};
    int failed = 0;
    rb_protect(call_with, (VALUE)values, &failed);
    if (!failed)
        return;
    rb_io_close(values[1]); /* nobody else would, and the client would wait */
    rb_jump_tag(failed);
}

/* Rack 3: the body is called with a stream. An upgrade gets the socket's bytes unframed. */
static void send_stream(nb_response_head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    if (!rb_respond_to(body, id_call))
        rb_raise(rb_eTypeError,
                 "status 101 goes with a body that is called with the socket: "
                 "%" PRIsVALUE,
                 rb_inspect(body));
    if (request->status == 101 || head->upgrade) {
        hand_socket_over(head, body);
        return;
    }
    collect_head(head);
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
    if (NIL_P(array) && rb_respond_to(body, id_to_ary))
        array = rb_funcallv(body, id_to_ary, 0, NULL);
    if (RB_TYPE_P(array, T_ARRAY))
        send_array(head, array);
    else if (request->bodiless)
        send_head(head);
    else if (rb_respond_to(body, id_to_path) && !request->raw && send_file(head, body))
        return;
    else if (rb_respond_to(body, id_each))
        send_enumerable(head, body);
    else if (rb_respond_to(body, id_call))
        send_stream(head, body);
    else
        rb_raise(rb_eTypeError, "no Rack body (each, call or to_path): %" PRIsVALUE,
                 rb_inspect(body));
}

typedef struct {
    nb_response_head_t head;
    VALUE headers, body;
} send_t;

static VALUE send_protected(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    nb_response_head_begin(&send->head, send->headers);
    request->bodiless = request->head_request || nb_status_forbids_body(request->status);
    if (send->head.hijack && send->head.hijack != Qnil)
        hand_socket_over(&send->head, send->head.hijack);
    else if (request->status == 101)
        send_stream(&send->head, send->body);
    else
        send_body(&send->head, send->body);
    return Qnil;
}

static void close_body(VALUE body)
{
    if (!RB_TYPE_P(body, T_ARRAY) && rb_respond_to(body, id_close))
        rb_funcallv(body, id_close, 0, NULL);
}

static VALUE clean_up(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    if (request->head.bytes)
        nb_buffer_free(&request->head);
    close_body(send->body);
    return Qnil;
}

/* The socket was hijacked or its client is gone: nobody gets the body, yet it must be closed. */
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
    VALUE status = RARRAY_AREF(triple, 0);
    request->status = RB_INTEGER_TYPE_P(status) ? NUM2INT(status)
                                                : NUM2INT(rb_funcallv(status, id_to_i, 0, NULL));
    if ((request->status < 200 && request->status != 101) || request->status > 999)
        rb_raise(rb_eArgError, "no status of a final response: %d", request->status);
    request->headers = RARRAY_AREF(triple, 1);
    request->body = RARRAY_AREF(triple, 2);
    send_t send = {
        .head = {.request = request}, .headers = request->headers, .body = request->body};
    rb_ensure(send_protected, (VALUE)&send, clean_up, (VALUE)&send);
    RB_GC_GUARD(triple);
}

/* An answer of our own, while none has begun. */
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
    nb_output_collect(conn, answer, (size_t)size);
}

void nb_response_init(VALUE server_module)
{
    (void)server_module;
    nb_response_head_init();
    id_each = rb_intern("each");
    id_call = rb_intern("call");
    id_close = rb_intern("close");
    id_to_ary = rb_intern("to_ary");
    id_to_path = rb_intern("to_path");
    id_to_s = rb_intern("to_s");
    id_to_i = rb_intern("to_i");
}
