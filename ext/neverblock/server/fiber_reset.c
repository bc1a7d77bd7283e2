/* fiber_reset.c - makes a fiber clean between two requests. Uses ruby.h.
 *
 * Read after: fiber_reset.h.
 */
#include "server/fiber_reset.h"
#include "loop/last_status.h"

static ID id_keys, id_storage, id_set;

static void reset_locals(VALUE thread)
{
    VALUE keys = rb_funcallv(thread, id_keys, 0, NULL);
    for (long i = 0; i < RARRAY_LEN(keys); i++)
        rb_thread_local_aset(thread, rb_sym2id(RARRAY_AREF(keys, i)), Qnil);
}

static void reset_attributes(VALUE fiber)
{
    if (!rb_ivar_count(fiber))
        return;
    VALUE names = rb_obj_instance_variables(fiber);
    for (long i = 0; i < RARRAY_LEN(names); i++)
        rb_obj_remove_instance_variable(fiber, RARRAY_AREF(names, i));
}

static void reset_storage(VALUE fiber)
{
#ifdef HAVE_RB_FIBER_NEW_STORAGE
    VALUE storage = rb_funcallv(fiber, id_storage, 0, NULL);
    if (!RB_TYPE_P(storage, T_HASH) || !RHASH_SIZE(storage))
        return;
    VALUE keys = rb_funcallv(storage, id_keys, 0, NULL);
    for (long i = 0; i < RARRAY_LEN(keys); i++)
        rb_funcall(rb_obj_class(fiber), id_set, 2, RARRAY_AREF(keys, i), Qnil);
#endif
}

VALUE nb_reset_this_fiber(VALUE argument)
{
    nb_server_t *server = (nb_server_t *)argument;
    VALUE fiber = rb_fiber_current();
    reset_locals(server->loop->thread);
    reset_attributes(fiber);
    reset_storage(fiber);
    nb_last_status_restore(server->loop, Qnil);
    return Qnil;
}

void nb_fiber_reset_init(void)
{
    id_keys = rb_intern("keys");
    id_storage = rb_intern("storage");
    id_set = rb_intern("[]=");
}
