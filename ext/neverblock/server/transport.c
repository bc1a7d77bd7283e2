/* transport.c - NB::Server::Transport: how a carried connection ended. Uses ruby.h.
 *
 * Read after: transport.h, connection.h.
 */
#include "server/transport.h"
#include "server/connection.h"

static VALUE cTransport;

static void transport_free(void *data)
{
    nb_transport_t *transport = data;
    if (transport->conn)
        transport->conn->transport = NULL;
    xfree(transport);
}

static const rb_data_type_t transport_type = {
    .wrap_struct_name = "NB::Server::Transport",
    .function = {.dfree = transport_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE nb_transport_new(nb_conn_t *conn)
{
    nb_transport_t *transport;
    VALUE self = TypedData_Make_Struct(cTransport, nb_transport_t, &transport_type, transport);
    transport->conn = conn;
    conn->transport = transport;
    conn->holds_last = false; /* the transport is told by nb_transport_t.cut */
    return self;
}

void nb_transport_leave(nb_conn_t *conn)
{
    if (conn->transport)
        conn->transport->conn = NULL;
    conn->transport = NULL;
}

/* @overload cut?
 *   @return [Boolean] whether the answer broke off, and only the end of the connection would have
 *     shown its length */
static VALUE rb_nb_transport_cut_p(VALUE self)
{
    const nb_transport_t *transport = rb_check_typeddata(self, &transport_type);
    return transport->cut ? Qtrue : Qfalse;
}

/* @overload lingers?
 *   @return [Boolean] whether the answer is whole, and the client may still be sending */
static VALUE rb_nb_transport_lingers_p(VALUE self)
{
    const nb_transport_t *transport = rb_check_typeddata(self, &transport_type);
    return transport->conn && transport->conn->state == NB_CONN_LINGER ? Qtrue : Qfalse;
}

/* @overload detached?
 *   @return [Boolean] whether a hijack has made the socket the application's */
static VALUE rb_nb_transport_detached_p(VALUE self)
{
    const nb_transport_t *transport = rb_check_typeddata(self, &transport_type);
    return transport->detached ? Qtrue : Qfalse;
}

void nb_transport_init(VALUE server_module)
{
    cTransport = rb_define_class_under(server_module, "Transport", rb_cObject);
    rb_gc_register_mark_object(cTransport);
    rb_undef_alloc_func(cTransport);
    rb_define_method(cTransport, "cut?", rb_nb_transport_cut_p, 0);
    rb_define_method(cTransport, "lingers?", rb_nb_transport_lingers_p, 0);
    rb_define_method(cTransport, "detached?", rb_nb_transport_detached_p, 0);
}
