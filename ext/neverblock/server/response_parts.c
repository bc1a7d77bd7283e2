/* response_parts.c - a response sent in parts: each, streams, early hints. Uses ruby.h.
 *
 * Read after: response_parts.h, exchange.h, response_head.h.
 */
#include "server/response_parts.h"
#include "http/chunked.h"
#include "loop/wait.h"
#include "server/exchange.h"
#include "server/hints.h"
#include "server/output.h"
#include "server/response_head.h"
#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>

#define DIRECT_BYTES 16384 /* a chunk as large as this is not copied into the collecting buffer */

static void check_length(nb_request_t *request, uint64_t size)
{
    if (request->framing != NB_FRAMING_LENGTH)
        return;
    if (size > request->length_left) {
        request->conn->keep = false;
        rb_raise(rb_eArgError, "the body is longer than its content-length");
    }
    request->length_left -= size;
}

/* Sends a string that is too large to copy together with what was collected before it. */
static void write_direct(nb_request_t *request, VALUE string, const char *frame, int frame_size)
{
    struct iovec iov[3] = {
        {.iov_base = (void *)(uintptr_t)frame, .iov_len = (size_t)frame_size},
        {.iov_base = RSTRING_PTR(string), .iov_len = (size_t)RSTRING_LEN(string)},
        {.iov_base = (void *)(uintptr_t) "\r\n", .iov_len = frame_size ? 2 : 0},
    };
    VALUE owners[3] = {0, string, 0};
    nb_conn_write(request->conn, iov, owners, 3);
}

/* Collects what the application's chunks contain. */
static void unchunk(nb_request_t *request, VALUE string)
{
    const char *bytes = RSTRING_PTR(string);
    size_t size = (size_t)RSTRING_LEN(string);
    nb_piece_t piece;
    int result;
    do {
        result = nb_chunked_read(&request->chunks, bytes, size, &piece);
        nb_conn_collect(request->conn, bytes + piece.at, piece.size);
        bytes += piece.used;
        size -= piece.used;
    } while (result == NB_CHUNKED_DATA);
    request->unchunked = result == NB_CHUNKED_DONE;
    if (result < 0)
        rb_raise(rb_eArgError, "the body is not in chunks: %s", nb_chunked_text(result));
    if (size)
        rb_raise(rb_eArgError, "the body continues after its last chunk");
}

/* Returns its bytes: others may change the string while this waits. */
static size_t write_part(nb_request_t *request, VALUE string)
{
    char frame[24];
    int frame_size = 0;
    nb_conn_t *conn = request->conn;
    if (!RB_TYPE_P(string, T_STRING))
        rb_raise(rb_eTypeError, "a body must yield only Strings, got: %" PRIsVALUE,
                 rb_inspect(string));
    size_t size = (size_t)RSTRING_LEN(string);
    uint64_t sent = request->sent_bytes;
    if (!size || request->framing == NB_FRAMING_NONE) /* an empty chunk would be the last one */
        return size;
    check_length(request, size);
    request->head_bytes = 0;
    if (request->framing == NB_FRAMING_CHUNKED)
        frame_size = snprintf(frame, sizeof(frame), "%zx\r\n", size);
    if (request->unchunks) {
        unchunk(request, string);
    } else if (size >= DIRECT_BYTES) {
        write_direct(request, string, frame, frame_size);
    } else {
        nb_conn_collect(conn, frame, (size_t)frame_size);
        nb_conn_collect(conn, RSTRING_PTR(string), size);
        if (frame_size)
            nb_conn_collect(conn, "\r\n", 2);
    }
    if (conn->state == NB_CONN_CLOSED)
        rb_syserr_fail(EPIPE, "the client is gone");
    /* A client slower than the application makes it wait here. */
    if (nb_output_full(conn) || (size >= DIRECT_BYTES && !nb_output_empty(conn)))
        nb_conn_drain(conn);
    else if (request->sent_bytes != sent) /* a client as fast as the application is not all */
        nb_eager(conn->server->loop);
    RB_GC_GUARD(string);
    return size;
}

void nb_response_end(nb_request_t *request)
{
    nb_conn_t *conn = request->conn;
    if (request->ended) /* by the stream */
        return;
    request->writing = false;
    if (request->unchunks && !request->unchunked)
        rb_raise(rb_eArgError, "the body has no last chunk");
    request->ended = true;
    if (!conn || conn->state == NB_CONN_CLOSED)
        return;
    request->ended_ns = nb_loop_clock(conn->server->loop);
    if (request->framing == NB_FRAMING_CHUNKED) {
        nb_conn_collect(conn, "0\r\n\r\n", 5);
    } else if (request->framing == NB_FRAMING_LENGTH && request->length_left) {
        conn->keep = false; /* closing shows the client that something is missing */
        rb_raise(rb_eArgError, "the body is %llu bytes shorter than its content-length",
                 (unsigned long long)request->length_left);
    }
    request->head_bytes = 0;
    nb_conn_flush(conn); /* the body's close may compute for long */
}

/* --- of NB::Server::Exchange ------------------------------------------------------------------ */

/* A block or stream that outlives its response raises, even while the request still runs. */
static nb_request_t *writing_request_of(VALUE self)
{
    nb_request_t *request = nb_exchange_request(self);
    if (!request->writing)
        rb_raise(rb_eIOError, "the response has ended: nothing more can be written to it");
    return request;
}

/* @!visibility private - one part of a body. */
VALUE nb_exchange_write(VALUE self, VALUE string)
{
    nb_request_t *request = writing_request_of(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "write", string);
    return SIZET2NUM(write_part(request, string));
}

/* @!visibility private */
static VALUE rb_nb_exchange_flush(VALUE self)
{
    nb_request_t *request = writing_request_of(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "flush", Qundef);
    nb_conn_flush(request->conn);
    return self;
}

/* @!visibility private - the stream's writing side was closed: the client need not wait for what
 *   the body does besides. Only nb_response_end knows what to do with a body that is too short; and
 *   where the end of the connection ends the response, the request's end does that. */
static VALUE rb_nb_exchange_end_response(VALUE self)
{
    nb_request_t *request = writing_request_of(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "end_response", Qundef);
    bool is_short = request->framing == NB_FRAMING_LENGTH && request->length_left;
    if (request->framing != NB_FRAMING_CLOSE && !is_short)
        nb_response_end(request);
    return Qnil;
}

/* @overload early_hints(headers)
 *   Sends "103 Early Hints" before the response. If the client is gone, they are lost: the
 *   application need not end for that.
 *   @param headers [Hash{String=>String}] such as {"link" => "</a.css>; rel=preload"}
 *   @return [nil]
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_exchange_early_hints(VALUE self, VALUE headers)
{
    if (nb_exchange_is_lost(self))
        return Qnil;
    nb_request_t *request = nb_exchange_request(self);
    if (nb_exchange_is_elsewhere(request))
        return nb_exchange_in_loop(self, request, "early_hints", headers);
    nb_hints_send(self, headers);
    return Qnil;
}

void nb_response_parts_init(void)
{
    VALUE klass = rb_cNBServerExchange;
    rb_define_method(klass, "early_hints", rb_nb_exchange_early_hints, 1);
    rb_define_method(klass, "write", nb_exchange_write, 1);
    rb_define_method(klass, "flush", rb_nb_exchange_flush, 0);
    rb_define_method(klass, "end_response", rb_nb_exchange_end_response, 0);
}
