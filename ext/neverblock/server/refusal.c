/* refusal.c - the server's own answers that end a connection, and their log lines. Uses ruby.h.
 *
 * Refusals are decided in callbacks of the loop, which must not wait; a separate fiber writes them
 * to the access log.
 *
 * Read after: refusal.h.
 */
#include "server/refusal.h"
#include "base/portable.h"
#include "hooks/hooks.h"
#include "http/status.h"
#include "server/date.h"
#include "server/output.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KEPT_REFUSALS 4096 /* while the log is slow; what comes beyond is not logged */

/* --- for the access log ----------------------------------------------------------------------- */

/* One future line of the log. */
typedef struct {
    nb_list_t link; /* server->refusals */
    int status;
    size_t sent_bytes;
    char peer[INET6_ADDRSTRLEN];
    uint8_t minor;
    size_t method_size, target_size; /* 0: the request line was not read */
    char line[];
} refusal_t;

static VALUE text_or_dash(const char *text, size_t size)
{
    return size ? rb_str_new(text, (long)size) : rb_str_new_cstr("-");
}

static VALUE log_one(VALUE argument)
{
    const VALUE *arguments = (const VALUE *)argument;
    const nb_server_t *server = (const nb_server_t *)arguments[0];
    const refusal_t *refusal = (const refusal_t *)arguments[1];
    const char *protocol = refusal->minor ? "HTTP/1.1" : "HTTP/1.0";
    VALUE env = rb_hash_new(), target;
    target = text_or_dash(refusal->line + refusal->method_size, refusal->target_size);
    rb_hash_aset(env, rb_str_new_cstr("REMOTE_ADDR"), rb_str_new_cstr(refusal->peer));
    rb_hash_aset(env, rb_str_new_cstr("REQUEST_METHOD"),
                 text_or_dash(refusal->line, refusal->method_size));
    rb_hash_aset(env, rb_str_new_cstr("REQUEST_URI"), target);
    rb_hash_aset(env, rb_str_new_cstr("SERVER_PROTOCOL"),
                 rb_str_new_cstr(refusal->target_size ? protocol : "-"));
    return rb_funcall(server->self, rb_intern("log_access"), 5, env, INT2FIX(refusal->status),
                      SIZET2NUM(refusal->sent_bytes), INT2FIX(0), INT2FIX(0));
}

/* Runs in a fiber of its own, which ends when all lines are written. */
static VALUE log_refusals(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    volatile VALUE self = server->self;
    while (!nb_list_empty(&server->refusals)) {
        refusal_t *refusal = nb_container_of(server->refusals.next, refusal_t, link);
        VALUE arguments[] = {argument, (VALUE)refusal};
        int failed = 0;
        nb_list_remove(&refusal->link);
        rb_protect(log_one, (VALUE)arguments, &failed);
        rb_set_errinfo(Qnil);
        free(refusal);
        server->refusal_count--;
    }
    (void)self;
    return Qnil;
}

void nb_refusals_free(nb_server_t *server)
{
    while (server->refusals.next && !nb_list_empty(&server->refusals)) {
        refusal_t *refusal = nb_container_of(server->refusals.next, refusal_t, link);
        nb_list_remove(&refusal->link);
        free(refusal);
        server->refusal_count--;
    }
}

/* The system has no room for that fiber. */
static void give_up(VALUE server)
{
    nb_refusals_free((nb_server_t *)server);
}

/* The line of a refused request may contain anything. */
static void put_text(char *to, const char *bytes, nb_span_t span)
{
    for (uint32_t i = 0; i < span.size; i++) {
        char byte = bytes[span.at + i];
        to[i] = byte > ' ' && byte <= '~' && byte != '"' ? byte : '?';
    }
}

/* The head of the refused request, if it was read that far. */
typedef struct {
    const nb_head_t *head;
    const char *bytes;
} refused_t;

static refused_t refused_request(const nb_conn_t *conn, const nb_incoming_t *incoming)
{
    if (conn->partial)
        return (refused_t){&conn->partial->head, conn->in.bytes};
    return incoming ? (refused_t){incoming->head, incoming->bytes} : (refused_t){0};
}

/* A request that waited in the queue was not read: what has arrived of it says. */
static bool begins_as_head(const nb_conn_t *conn)
{
    char bytes[5];
    if (conn->in.size)
        return conn->in.size >= 5 && memcmp(conn->in.bytes, "HEAD ", 5) == 0;
    return recv(conn->watch.fd, bytes, 5, MSG_PEEK | MSG_DONTWAIT) == 5 &&
           memcmp(bytes, "HEAD ", 5) == 0;
}

static bool is_head(const nb_conn_t *conn, const refused_t *request)
{
    const nb_head_t *head = request->head;
    if (!head || !head->method.size)
        return begins_as_head(conn);
    return head->method.size == 4 && memcmp(request->bytes + head->method.at, "HEAD", 4) == 0;
}

static void note_refusal(nb_conn_t *conn, int status, size_t sent, const refused_t *request)
{
    nb_server_t *server = conn->server;
    const nb_head_t *head = request->head;
    const char *bytes = request->bytes;
    nb_span_t method = {0}, target = {0};
    if (head) {
        method = head->method;
        target = head->target;
    }
    refusal_t *refusal = server->refusal_count < KEPT_REFUSALS
                             ? calloc(1, sizeof(*refusal) + method.size + target.size)
                             : NULL;
    if (!refusal)
        return;
    refusal->status = status;
    refusal->sent_bytes = sent;
    refusal->minor = head ? head->minor : 0;
    refusal->method_size = method.size;
    refusal->target_size = target.size;
    put_text(refusal->line, bytes, method);
    put_text(refusal->line + method.size, bytes, target);
    if (!conn->family || !inet_ntop(conn->family, conn->peer, refusal->peer, sizeof(refusal->peer)))
        strcpy(refusal->peer, "127.0.0.1"); /* as REMOTE_ADDR of a UNIX socket */
    nb_list_append(&server->refusals, &refusal->link);
    server->refusal_count++;
    if (server->refusal_count == 1)
        nb_spawn(server->loop, log_refusals, give_up, (VALUE)server);
}

/* --- the end of a connection ------------------------------------------------------------------ */

void nb_conn_refuse(nb_conn_t *conn, int status, const char *text, const nb_incoming_t *incoming)
{
    char answer[512];
    nb_server_t *server = conn->server;
    refused_t request = refused_request(conn, incoming);
    server->counters.refused++;
    nb_output_free(conn); /* a "100 Continue" that has not gone out */
    size_t body = strlen(text) + 1;
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: text/plain\r\n"
                        "Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s\n",
                        status, nb_status_text(status), nb_server_date(server), body,
                        status == 503 ? "Retry-After: 1\r\n" : "", text);
    if (is_head(conn, &request))
        size -= (int)body;
    /* A client that does not take 512 bytes gets nothing. */
    ssize_t sent = send(conn->watch.fd, answer, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (server->options.log)
        note_refusal(conn, status, sent < 0 ? 0 : (size_t)sent, &request);
    if (sent < 0 || conn->hung_up)
        nb_conn_close(conn);
    else
        nb_conn_linger(conn);
}
