/* hints.c - "103 Early Hints", before a response. Uses ruby.h.
 *
 * Read after: hints.h.
 */
#include "server/hints.h"
#include "server/exchange.h"
#include "server/output.h"
#include "server/response_head.h"

/* Early hints are built separately: while Ruby code is asked for the fields, the response may begin
 * or the request end, and even the server, which this keeps. */
typedef struct {
    VALUE exchange, headers, core;
    nb_conn_t conn;
    nb_request_t request;
} nb_hints_t;

static VALUE put_hints(VALUE argument)
{
    nb_hints_t *hints = (nb_hints_t *)argument;
    nb_response_head_t head = {.request = &hints->request, .length = NB_LENGTH_UNKNOWN};
    nb_response_head_begin(&head, hints->headers);
    if (nb_buffer_append(head.out, "\r\n", 2) < 0)
        rb_memerror();
    if (nb_exchange_is_lost(hints->exchange))
        return Qnil;
    nb_request_t *request = nb_exchange_request(hints->exchange);
    if (!request->head_sent && !nb_conn_collect(request->conn, head.out->bytes, head.out->size))
        nb_conn_flush(request->conn); /* at once: they are for what the application computes now */
    return Qnil;
}

static VALUE free_hints(VALUE argument)
{
    nb_hints_t *hints = (nb_hints_t *)argument;
    if (hints->request.head.bytes)
        nb_response_head_give_back(&hints->request);
    return Qnil;
}

void nb_hints_send(VALUE exchange, VALUE headers)
{
    nb_request_t *request = nb_exchange_request(exchange);
    nb_server_t *server = request->conn->server;
    nb_hints_t hints = {.exchange = exchange,
                        .headers = headers,
                        .core = server->self,
                        .conn = {.server = server},
                        .request = {.conn = &hints.conn, .status = 103}};
    if (!request->head_sent && request->minor)
        rb_ensure(put_hints, (VALUE)&hints, free_hints, (VALUE)&hints);
}
