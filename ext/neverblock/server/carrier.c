/* carrier.c - NB::Server::Carrier: how a carried connection ended. Uses ruby.h.
 *
 * Read after: carrier.h, connection.h.
 */
#include "server/carrier.h"
#include "server/connection.h"

static VALUE cCarrier;

static void carrier_free(void *data)
{
    nb_carrier_t *carrier = data;
    if (carrier->conn)
        carrier->conn->carrier = NULL;
    xfree(carrier);
}

static const rb_data_type_t carrier_type = {
    .wrap_struct_name = "NB::Server::Carrier",
    .function = {.dfree = carrier_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE nb_carrier_new(nb_conn_t *conn)
{
    nb_carrier_t *carrier;
    VALUE self = TypedData_Make_Struct(cCarrier, nb_carrier_t, &carrier_type, carrier);
    carrier->conn = conn;
    conn->carrier = carrier;
    conn->holds_last = false; /* the carrier is told by nb_carrier_t.cut */
    return self;
}

void nb_carrier_leave(nb_conn_t *conn)
{
    if (conn->carrier)
        conn->carrier->conn = NULL;
    conn->carrier = NULL;
}

/* @overload cut?
 *   @return [Boolean] whether the answer broke off, and only the end of the connection would have
 *     shown its length */
static VALUE rb_nb_carrier_cut_p(VALUE self)
{
    const nb_carrier_t *carrier = rb_check_typeddata(self, &carrier_type);
    return carrier->cut ? Qtrue : Qfalse;
}

/* @overload lingers?
 *   @return [Boolean] whether the answer is whole, and the client may still be sending */
static VALUE rb_nb_carrier_lingers_p(VALUE self)
{
    const nb_carrier_t *carrier = rb_check_typeddata(self, &carrier_type);
    return carrier->conn && carrier->conn->state == NB_CONN_LINGER ? Qtrue : Qfalse;
}

/* @overload detached?
 *   @return [Boolean] whether a hijack has made the socket the application's */
static VALUE rb_nb_carrier_detached_p(VALUE self)
{
    const nb_carrier_t *carrier = rb_check_typeddata(self, &carrier_type);
    return carrier->detached ? Qtrue : Qfalse;
}

void nb_carrier_init(VALUE server_module)
{
    cCarrier = rb_define_class_under(server_module, "Carrier", rb_cObject);
    rb_gc_register_mark_object(cCarrier);
    rb_undef_alloc_func(cCarrier);
    rb_define_method(cCarrier, "cut?", rb_nb_carrier_cut_p, 0);
    rb_define_method(cCarrier, "lingers?", rb_nb_carrier_lingers_p, 0);
    rb_define_method(cCarrier, "detached?", rb_nb_carrier_detached_p, 0);
}
