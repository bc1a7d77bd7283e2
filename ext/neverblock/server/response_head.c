/* response_head.c - status line and fields of a response. Ruby.
 *
 * The application's fields come first, then those that are ours: framing, Date, Connection. What a
 * peer could take for other framing than ours is refused: line ends in fields, a Content-Length
 * that is no number.
 *
 * Read after: server.h, response_head.h. Used by: response.c, exchange.c.
 */
#include "server/response_head.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static ID id_each;
static VALUE hijack_key;

/* One text per second, RFC 9110 5.6.7. */
const char *nb_server_date(nb_server_t *server)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != server->date_second) {
        struct tm tm;
        gmtime_r(&now.tv_sec, &tm);
        strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        server->date_second = now.tv_sec;
    }
    return server->date;
}

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
    return strncasecmp(RSTRING_PTR(name), text, (size_t)RSTRING_LEN(name)) == 0 &&
           strlen(text) == (size_t)RSTRING_LEN(name);
}

static bool has_line_end(const char *bytes, size_t size)
{
    return memchr(bytes, '\n', size) || memchr(bytes, '\r', size) || memchr(bytes, 0, size);
}

static bool contains(VALUE text, const char *word)
{
    size_t size = strlen(word);
    for (long i = 0; i + (long)size <= RSTRING_LEN(text); i++)
        if (strncasecmp(RSTRING_PTR(text) + i, word, size) == 0)
            return true;
    return false;
}

static void read_length(nb_response_head_t *head, VALUE value)
{
    char *end;
    const char *text = StringValueCStr(value);
    errno = 0;
    head->length = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text < '0' || *text > '9')
        rb_raise(rb_eArgError, "content-length is no number: %" PRIsVALUE, rb_inspect(value));
    head->has_length = true;
}

/* Fields that say something about framing or the connection. Returns false to leave the line out.
 */
static bool own_field(nb_response_head_t *head, VALUE name, VALUE value)
{
    nb_request_t *request = head->request;
    switch (RSTRING_LEN(name)) {
    case 4:
        head->has_date |= same_name(name, "date");
        return true;
    case 10:
        if (!same_name(name, "connection"))
            return true;
        if (contains(value, "close"))
            request->conn->keep = false;
        head->upgrade = contains(value, "upgrade");
        head->has_connection = head->upgrade;
        return head->upgrade; /* keep-alive and close are ours to say */
    case 14:
        if (!same_name(name, "content-length"))
            return true;
        read_length(head, value);
        return false; /* written by us, or left out where it is forbidden */
    case 17:
        if (!same_name(name, "transfer-encoding"))
            return true;
        /* The application frames the body itself, as Rack::Chunked does. Nobody checks how: were it
         * wrong, the next response would be read as part of this one. */
        request->raw = head->has_coding = true;
        request->conn->keep = false;
        return true;
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

/* Rack 2 puts several values into one String with line feeds between. */
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
        return ST_CONTINUE;
    }
    if (!size || memchr(text, ':', size) || memchr(text, ' ', size) || has_line_end(text, size))
        rb_raise(rb_eArgError, "no header name: %" PRIsVALUE, rb_inspect(name));
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

void nb_response_head_begin(nb_response_head_t *head, VALUE headers)
{
    nb_request_t *request = head->request;
    nb_server_t *server = request->conn->server;
    if (!request->head.bytes) {           /* early hints that raised have left it here */
        request->head = server->head_out; /* its own while Ruby code may run in between */
        server->head_out = (nb_buffer_t){0};
    }
    request->head.size = 0;
    head->out = &request->head;
    if (request->status == 200) {
        PUT(head->out, "HTTP/1.1 200 OK\r\n");
    } else {
        PUT(head->out, "HTTP/1.1 ");
        put_number(head->out, (uint64_t)request->status);
        PUT(head->out, " ");
        put(head->out, nb_status_text(request->status), strlen(nb_status_text(request->status)));
        PUT(head->out, "\r\n");
    }
    if (RB_TYPE_P(headers, T_HASH))
        rb_hash_foreach(headers, put_field, (VALUE)head);
    else if (rb_respond_to(headers, id_each))
        rb_block_call(headers, id_each, 0, NULL, put_pair, (VALUE)head);
    else
        rb_raise(rb_eTypeError, "no response headers (each): %" PRIsVALUE, rb_inspect(headers));
}

static void put_framing(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    bool forbidden = nb_status_forbids_body(request->status);
    if (head->has_coding) /* never both, RFC 9112 6.2 */
        head->has_length = false;
    if (head->has_length && request->status >= 200 && request->status != 204) {
        PUT(head->out, "content-length: ");
        put_number(head->out, head->length);
        PUT(head->out, "\r\n");
    } else if (!forbidden && !request->raw && !request->bodiless && !head->upgrade) {
        if (request->minor) {
            request->chunked = true;
            PUT(head->out, "transfer-encoding: chunked\r\n");
        } else {
            request->conn->keep = false; /* its end is the end of the connection */
        }
    }
    request->has_length = head->has_length;
    request->length_left = head->length;
}

void nb_response_head_finish(nb_response_head_t *head)
{
    nb_request_t *request = head->request;
    nb_conn_t *conn = request->conn;
    put_framing(head);
    if (!head->has_date) {
        PUT(head->out, "date: ");
        put(head->out, nb_server_date(conn->server), 29);
        PUT(head->out, "\r\n");
    }
    if (nb_body_missing(conn)) /* the rest of the request body was not asked for yet */
        conn->keep = false;
    if (conn->server->draining)
        conn->keep = false;
    if (!head->has_connection && !conn->keep)
        PUT(head->out, "connection: close\r\n");
    else if (!head->has_connection && request->minor == 0)
        PUT(head->out, "connection: keep-alive\r\n");
    PUT(head->out, "\r\n");
    request->head_sent = true;
    nb_conn_deadline(conn, NB_NEVER);
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

void nb_response_early_hints(nb_request_t *request, VALUE headers)
{
    nb_response_head_t head = {.request = request};
    if (request->head_sent || !request->minor)
        return;
    request->status = 103;
    nb_response_head_begin(&head, headers);
    PUT(head.out, "\r\n");
    nb_output_collect(request->conn, head.out->bytes, head.out->size);
    nb_response_head_give_back(request);
    request->status = 0;
}

void nb_response_head_init(void)
{
    id_each = rb_intern("each");
    hijack_key = rb_interned_str_cstr("rack.hijack");
    rb_gc_register_mark_object(hijack_key);
}
