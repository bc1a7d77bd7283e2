/* response.c - from the application's triple to bytes. Ruby.
 *
 * nb_response_send decides how the body goes out: nothing, an Array by one writev, a file by
 * sendfile, an enumerable in chunks collected until the end of the tick, a block that is given the
 * stream. What a peer could take for other framing than ours is refused: line ends in fields, a
 * Content-Length that does not fit.
 *
 * Read after: server.h. Used by: worker.c, exchange.c.
 */
#include "server/server.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DIRECT_BYTES 16384 /* a chunk as large as this is not copied into the collecting buffer */
#define STACK_PARTS 64

static ID id_each, id_call, id_close, id_to_ary, id_to_path, id_to_s, id_to_i;
static VALUE hijack_key;

/* --- texts ------------------------------------------------------------------------------------ */

const char *nb_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {103, "Early Hints"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Unknown";
}

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

/* --- head --------------------------------------------------------------------------------------
 */

typedef struct {
    nb_request_t *request;
    nb_buffer_t *out;
    VALUE hijack; /* partial hijack: the value of "rack.hijack" */
    uint64_t length;
    bool has_length, has_date, has_connection, upgrade;
} head_t;

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

static void read_length(head_t *head, VALUE value)
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
static bool own_field(head_t *head, VALUE name, VALUE value)
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
        if (same_name(name, "transfer-encoding"))
            request->raw = true; /* the application frames the body itself, as Rack::Chunked does */
        return true;
    default:
        return true;
    }
}

static void put_line(head_t *head, VALUE name, const char *bytes, size_t size)
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
static void put_value(head_t *head, VALUE name, VALUE value)
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
    head_t *head = (head_t *)argument;
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

static bool forbids_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Status line and the application's fields; finish_head adds ours. */
static void begin_head(head_t *head, VALUE headers)
{
    nb_request_t *request = head->request;
    nb_server_t *server = request->conn->server;
    request->head = server->head_out; /* its own while Ruby code may run in between */
    server->head_out = (nb_buffer_t){0};
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
    else
        rb_block_call(headers, id_each, 0, NULL, put_pair, (VALUE)head);
}

static void put_framing(head_t *head)
{
    nb_request_t *request = head->request;
    bool forbidden = forbids_body(request->status);
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

static void finish_head(head_t *head)
{
    nb_request_t *request = head->request;
    nb_conn_t *conn = request->conn;
    put_framing(head);
    if (!head->has_date) {
        PUT(head->out, "date: ");
        put(head->out, nb_server_date(conn->server), 29);
        PUT(head->out, "\r\n");
    }
    if (conn->body) /* the rest of the request body was never asked for */
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

static void give_back_head(nb_request_t *request, nb_server_t *server)
{
    if (server->head_out.bytes)
        nb_buffer_free(&request->head);
    else
        server->head_out = request->head;
    request->head = (nb_buffer_t){0};
}

/* --- bodies -------------------------------------------------------------------------------------
 */

static void write_parts(nb_request_t *request, struct iovec *iov, const VALUE *owners, int count)
{
    nb_output_write(request->conn, iov, owners, count);
    give_back_head(request, request->conn->server);
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
static void send_array(head_t *head, VALUE array)
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
    }
    finish_head(head);
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

static void send_head(head_t *head)
{
    nb_request_t *request = head->request;
    finish_head(head);
    struct iovec iov = {.iov_base = request->head.bytes, .iov_len = request->head.size};
    VALUE owner = 0;
    write_parts(request, &iov, &owner, 1);
}

/* Like send_head, but the bytes wait for those of the body. */
static void collect_head(head_t *head)
{
    nb_request_t *request = head->request;
    finish_head(head);
    nb_output_collect(request->conn, request->head.bytes, request->head.size);
    give_back_head(request, request->conn->server);
}

/* The file is opened by us, so that the application's body can be closed at once. */
static bool send_file(head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    VALUE path = rb_funcallv(body, id_to_path, 0, NULL);
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

static void send_enumerable(head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    collect_head(head);
    rb_block_call(body, id_each, 0, NULL, each_part, (VALUE)request);
    nb_response_end(request);
}

/* The head is out and the socket is the application's, bytes and all. */
static void hand_socket_over(head_t *head, VALUE callable)
{
    nb_request_t *request = head->request;
    request->raw = true;
    request->conn->keep = false;
    head->has_connection = true;
    send_head(head);
    nb_output_drain(request->conn);
    VALUE io = rb_funcall(request->exchange, rb_intern("detach"), 0);
    rb_funcallv(callable, id_call, 1, &io);
}

/* Rack 3: the body is called with a stream. An upgrade gets the socket's bytes unframed. */
static void send_stream(head_t *head, VALUE body)
{
    nb_request_t *request = head->request;
    if (request->status == 101 || head->upgrade) {
        hand_socket_over(head, body);
        return;
    }
    collect_head(head);
    VALUE stream = rb_funcall(rb_const_get(rb_mNBServer, rb_intern("Stream")), rb_intern("new"), 1,
                              request->exchange);
    rb_funcallv(body, id_call, 1, &stream);
    rb_funcall(stream, rb_intern("wait"), 0);
    nb_response_end(request);
}

static void send_body(head_t *head, VALUE body)
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
    head_t head;
    VALUE headers, body;
} send_t;

static VALUE send_protected(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    begin_head(&send->head, send->headers);
    request->bodiless = request->head_request || forbids_body(request->status);
    if (send->head.hijack && send->head.hijack != Qnil)
        hand_socket_over(&send->head, send->head.hijack);
    else if (request->status == 101)
        send_stream(&send->head, send->body);
    else
        send_body(&send->head, send->body);
    return Qnil;
}

static VALUE close_body(VALUE argument)
{
    send_t *send = (send_t *)argument;
    nb_request_t *request = send->head.request;
    if (request->head.bytes)
        nb_buffer_free(&request->head);
    if (!RB_TYPE_P(send->body, T_ARRAY) && rb_respond_to(send->body, id_close))
        rb_funcallv(send->body, id_close, 0, NULL);
    return Qnil;
}

void nb_response_send(nb_request_t *request, VALUE triple)
{
    triple = rb_check_array_type(triple);
    if (NIL_P(triple) || RARRAY_LEN(triple) < 3)
        rb_raise(rb_eTypeError, "the application returned no [status, headers, body]");
    VALUE status = RARRAY_AREF(triple, 0);
    request->status = RB_INTEGER_TYPE_P(status) ? NUM2INT(status)
                                                : NUM2INT(rb_funcallv(status, id_to_i, 0, NULL));
    if (request->status < 100 || request->status > 999)
        rb_raise(rb_eArgError, "no HTTP status: %d", request->status);
    request->headers = RARRAY_AREF(triple, 1);
    request->body = RARRAY_AREF(triple, 2);
    send_t send = {
        .head = {.request = request}, .headers = request->headers, .body = request->body};
    rb_ensure(send_protected, (VALUE)&send, close_body, (VALUE)&send);
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
    if (conn->body || conn->server->draining)
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

void nb_response_early_hints(nb_request_t *request, VALUE headers)
{
    head_t head = {.request = request};
    if (request->head_sent || !request->minor)
        return;
    request->status = 103;
    begin_head(&head, headers);
    PUT(head.out, "\r\n");
    nb_output_collect(request->conn, head.out->bytes, head.out->size);
    give_back_head(request, request->conn->server);
    request->status = 0;
}

void nb_response_init(VALUE server_module)
{
    (void)server_module;
    id_each = rb_intern("each");
    id_call = rb_intern("call");
    id_close = rb_intern("close");
    id_to_ary = rb_intern("to_ary");
    id_to_path = rb_intern("to_path");
    id_to_s = rb_intern("to_s");
    id_to_i = rb_intern("to_i");
    hijack_key = rb_interned_str_cstr("rack.hijack");
    rb_gc_register_mark_object(hijack_key);
}
