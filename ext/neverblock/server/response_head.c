/* response_head.c - status line and fields of a response. Uses ruby.h.
 *
 * The application's fields come first, then ours: framing, Date, Connection. Anything that a peer
 * could take for a different framing is refused: line ends in fields, a Content-Length that is not
 * a number.
 *
 * Read after: response_head.h.
 */
#include "server/response_head.h"
#include "base/clock.h"
#include "http/bytes.h"
#include "http/status.h"
#include "http/tables.h"
#include "server/body.h"
#include "server/date.h"
#include "server/deadline.h"
#include "server/exchange.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static ID id_each;
static VALUE hijack_key, protocol_key;

static void put(nb_buffer_t *buffer, const char *bytes, size_t size)
{
    if (nb_buffer_append(buffer, bytes, size) < 0)
        rb_memerror();
}

#define PUT(buffer, text) put(buffer, text, sizeof(text) - 1)

static void put_number(nb_buffer_t *buffer, uint64_t number)
{
    char digits[24], *at = digits + sizeof(digits);
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    put(buffer, at, (size_t)(digits + sizeof(digits) - at));
}

static bool same_name(VALUE name, const char *text)
{
    return strlen(text) == (size_t)RSTRING_LEN(name) &&
           nb_same_word(RSTRING_PTR(name), text, (size_t)RSTRING_LEN(name));
}

static bool has_line_end(const char *bytes, size_t size)
{
    return memchr(bytes, '\n', size) || memchr(bytes, '\r', size) || memchr(bytes, 0, size);
}

/* For example, a tab before the colon hides a field from us that some clients still read. */
static bool is_name(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!nb_is_token[nb_byte_at(bytes + i)])
            return false;
    return size > 0;
}

static bool contains(VALUE text, const char *word)
{
    size_t size = strlen(word);
    for (long i = 0; i + (long)size <= RSTRING_LEN(text); i++)
        if (nb_same_word(RSTRING_PTR(text) + i, word, size))
            return true;
    return false;
}

static void read_length(nb_response_head_t *head, VALUE value)
{
    char *end;
    const char *text = StringValueCStr(value);
    errno = 0;
    uint64_t length = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text < '0' || *text > '9' || length == NB_LENGTH_UNKNOWN ||
        (head->length != NB_LENGTH_UNKNOWN && head->length != length))
        rb_raise(rb_eArgError, "content-length is not one number: %" PRIsVALUE, rb_inspect(value));
    head->length = length;
}

/* The application frames the body itself, as Rack::Chunked does. Nobody checks how: if it were
 * wrong, the next response would be read as part of this one. A client of HTTP/1.0 must not get the
 * field (RFC 9112 6.1), so it gets what the chunks contain. Returns whether to write the line. */
static bool own_coding(nb_response_head_t *head, VALUE value)
{
    nb_request_t *request = head->request;
    if (request->status == 205)
        return false;
    head->coded = true;
    request->conn->keep = false;
    if (nb_status_forbids_body(request->status))
        return request->status == 304 && request->minor;
    if (request->minor)
        return true;
    if (request->unchunks || !same_name(value, "chunked"))
        rb_raise(rb_eArgError, "HTTP/1.0 has no transfer-encoding %" PRIsVALUE, rb_inspect(value));
    nb_chunked_start(&request->chunks);
    request->unchunks = true;
    return false;
}

/* Fields about framing or the connection. Returns false to leave the line out. */
static bool own_field(nb_response_head_t *head, VALUE name, VALUE value)
{
    switch (RSTRING_LEN(name)) {
    case 4:
        head->date |= same_name(name, "date");
        return true;
    case 7:
        head->upgrade_to |= same_name(name, "upgrade");
        return true;
    case 10:
        if (!same_name(name, "connection"))
            return true;
        if (contains(value, "close"))
            head->request->conn->keep = false;
        head->upgrade |= contains(value, "upgrade");
        return false; /* the server decides this */
    case 14:
        if (!same_name(name, "content-length"))
            return true;
        read_length(head, value);
        return false; /* written by us, or left out where it is forbidden */
    case 17:
        if (!same_name(name, "transfer-encoding"))
            return true;
        return own_coding(head, value);
    default:
        return true;
    }
}

static void put_line(nb_response_head_t *head, VALUE name, const char *bytes, size_t size)
{
    if (has_line_end(bytes, size))
        rb_raise(rb_eArgError, "header %" PRIsVALUE " has a line end or NUL in its value",
                 rb_inspect(name));
    put(head->out, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
    PUT(head->out, ": ");
    put(head->out, bytes, size);
    PUT(head->out, "\r\n");
}

/* Rack 2 joins several values in one String with line feeds. */
static void put_value(nb_response_head_t *head, VALUE name, VALUE value)
{
    if (!RB_TYPE_P(value, T_STRING))
        value = rb_obj_as_string(value);
    if (!own_field(head, name, value))
        return;
    const char *at = RSTRING_PTR(value), *end = at + RSTRING_LEN(value), *feed;
    while ((feed = memchr(at, '\n', (size_t)(end - at)))) {
        put_line(head, name, at, (size_t)(feed - at));
        at = feed + 1;
    }
    if (at < end || at == RSTRING_PTR(value)) /* what ends with a line feed has no further value */
        put_line(head, name, at, (size_t)(end - at));
    RB_GC_GUARD(value);
}

static int put_field(VALUE name, VALUE value, VALUE argument)
{
    nb_response_head_t *head = (nb_response_head_t *)argument;
    if (!RB_TYPE_P(name, T_STRING))
        name = rb_obj_as_string(name);
    const char *text = RSTRING_PTR(name);
    size_t size = (size_t)RSTRING_LEN(name);
    if (size >= 5 && memcmp(text, "rack.", 5) == 0) {
        if (rb_str_equal(name, hijack_key))
            head->hijack = value;
        else if (rb_str_equal(name, protocol_key))
            head->protocol = value;
        return ST_CONTINUE;
    }
    if (!is_name(text, size))
        rb_raise(rb_eArgError, "not a header name: %" PRIsVALUE, rb_inspect(name));
    if (RB_TYPE_P(value, T_ARRAY))
        for (long i = 0; i < RARRAY_LEN(value); i++)
            put_value(head, name, RARRAY_AREF(value, i));
    else if (!NIL_P(value))
        put_value(head, name, value);
    return ST_CONTINUE;
}

static VALUE put_pair(RB_BLOCK_CALL_FUNC_ARGLIST(pair, argument))
{
    VALUE name = pair, value = argc > 1 ? argv[1] : Qnil;
    if (argc == 1 && RB_TYPE_P(pair, T_ARRAY)) {
        name = rb_ary_entry(pair, 0);
        value = rb_ary_entry(pair, 1);
    }
    put_field(name, value, argument);
    return Qnil;
}

static void put_status(nb_buffer_t *out, int status)
{
    const char *text = nb_status_text(status);
    PUT(out, "HTTP/1.1 ");
    put_number(out, (uint64_t)status);
    PUT(out, " ");
    put(out, text, strlen(text));
    PUT(out, "\r\n");
}

/* Rack 3.1: the server performs the upgrade. An application written for HTTP/2 may say 200. */
static void switch_protocols(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    nb_buffer_t *out = head->out;
    VALUE protocol = head->protocol;
    if (NIL_P(rb_hash_aref(request->env, protocol_key)))
        rb_raise(rb_eArgError,
                 "rack.protocol is %" PRIsVALUE ", but the client asked for no "
                 "upgrade",
                 rb_inspect(protocol));
    StringValue(protocol);
    if (request->status != 101) {
        const char *fields = (char *)memchr(out->bytes, '\n', out->size) + 1;
        VALUE rest = rb_str_new(fields, out->bytes + out->size - fields);
        out->size = 0;
        put_status(out, request->status = 101);
        put(out, RSTRING_PTR(rest), (size_t)RSTRING_LEN(rest));
        RB_GC_GUARD(rest);
    }
    head->upgrade = true;
    if (!head->upgrade_to)
        put_line(head, rb_str_new_cstr("upgrade"), RSTRING_PTR(protocol),
                 (size_t)RSTRING_LEN(protocol));
    RB_GC_GUARD(protocol);
}

void nb_response_head_begin(nb_response_head_t *head, VALUE headers)
{
    nb_request_t *request = head->request;
    nb_server_t *server = request->conn->server;
    request->head = server->head_out; /* its own buffer, since Ruby code may run in between */
    server->head_out = (nb_buffer_t){0};
    request->head.size = 0;
    head->out = &request->head;
    head->length = NB_LENGTH_UNKNOWN;
    if (request->status == 200)
        PUT(head->out, "HTTP/1.1 200 OK\r\n");
    else
        put_status(head->out, request->status);
    if (RB_TYPE_P(headers, T_HASH) && rb_method_basic_definition_p(CLASS_OF(headers), id_each))
        rb_hash_foreach(headers, put_field, (VALUE)head);
    else if (rb_respond_to(headers, id_each))
        rb_block_call(headers, id_each, 0, NULL, put_pair, (VALUE)head);
    else
        rb_raise(rb_eTypeError, "response headers do not respond to each: %" PRIsVALUE,
                 rb_inspect(headers));
    if (request->unchunks && RTEST(head->hijack))
        rb_raise(rb_eArgError, "a hijacked connection of HTTP/1.0 can have no transfer-encoding");
    if (RTEST(head->protocol) && (request->status == 101 || request->status / 100 == 2))
        switch_protocols(head);
}

/* RFC 9110 15.3.6: a 205 has a body of no bytes. Clients that rely on that, such as Net::HTTP,
 * would take any other for the next response. */
bool nb_response_has_body(const nb_request_t *request)
{
    return !request->head_request && !nb_status_forbids_body(request->status) &&
           request->status != 205;
}

/* RFC 9112 6.3. An upgrade that a final response only offers changes nothing here. */
static nb_framing_t framing_of(const nb_response_head_t *head, uint64_t size)
{
    const nb_request_t *request = head->request;
    if (request->status == 101 || RTEST(head->hijack))
        return NB_FRAMING_UPGRADED;
    if (!nb_response_has_body(request))
        return NB_FRAMING_NONE;
    if (head->coded)
        return NB_FRAMING_CLOSE;
    if (size != NB_LENGTH_UNKNOWN)
        return NB_FRAMING_LENGTH;
    return request->minor ? NB_FRAMING_CHUNKED : NB_FRAMING_CLOSE;
}

static void put_framing(nb_response_head_t *head, uint64_t size)
{
    nb_request_t *request = head->request;
    if (request->status == 205)
        size = 0;
    else if (size == NB_LENGTH_UNKNOWN)
        size = head->length;
    request->framing = framing_of(head, size);
    nb_conn_until_close(request->conn, request->framing == NB_FRAMING_CLOSE);
    request->length_left = size;
    if (request->framing == NB_FRAMING_CLOSE || request->framing == NB_FRAMING_UPGRADED)
        request->conn->keep = false;
    if (request->framing == NB_FRAMING_CHUNKED) {
        PUT(head->out, "transfer-encoding: chunked\r\n");
    } else if (size != NB_LENGTH_UNKNOWN && !head->coded && request->status >= 200 &&
               request->status != 204) { /* never both, RFC 9112 6.2 */
        PUT(head->out, "content-length: ");
        put_number(head->out, size);
        PUT(head->out, "\r\n");
    }
}

static void put_connection(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    nb_conn_t *conn = request->conn;
    bool upgraded = request->framing == NB_FRAMING_UPGRADED; /* nobody announces its end */
    if (nb_body_missing(conn)) /* the rest of the request body was not asked for yet */
        conn->keep = false;
    if (conn->server->draining)
        conn->keep = false;
    if (head->upgrade && (conn->keep || upgraded))
        PUT(head->out, "connection: upgrade\r\n");
    else if (head->upgrade)
        PUT(head->out, "connection: upgrade, close\r\n");
    else if (!conn->keep && !upgraded)
        PUT(head->out, "connection: close\r\n");
    else if (!upgraded && request->minor == 0)
        PUT(head->out, "connection: keep-alive\r\n");
}

void nb_response_head_finish(nb_response_head_t *head, uint64_t size)
{
    nb_request_t *request = head->request;
    nb_conn_t *conn = request->conn;
    put_framing(head, size);
    if (!head->date) {
        PUT(head->out, "date: ");
        put(head->out, nb_server_date(conn->server), 29);
        PUT(head->out, "\r\n");
    }
    put_connection(head);
    PUT(head->out, "\r\n");
    request->head_sent = true;
    request->answered_ns = nb_loop_clock(conn->server->loop);
    nb_conn_answered(conn);
}

void nb_response_head_give_back(nb_request_t *request)
{
    nb_server_t *server = request->conn->server;
    if (server->head_out.bytes)
        nb_buffer_free(&request->head);
    else
        server->head_out = request->head;
    request->head = (nb_buffer_t){0};
}

void nb_response_head_init(void)
{
    id_each = rb_intern("each");
    hijack_key = rb_interned_str_cstr("rack.hijack");
    rb_gc_register_mark_object(hijack_key);
    protocol_key = rb_interned_str_cstr("rack.protocol");
    rb_gc_register_mark_object(protocol_key);
}
