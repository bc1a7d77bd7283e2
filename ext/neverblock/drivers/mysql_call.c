/* mysql_call.c - mysql2's calls into its library: NB::Drivers::MysqlWait. Uses ruby.h.
 *
 * Every method of mysql2 that talks to the server runs inside MysqlWait.call (drivers/mysql2.rb),
 * in four steps:
 *
 *   1. if another fiber is parked in the library with this client, the call is refused: the library
 *      cannot hold two;
 *   2. without a loop, or if the client has no struct of a connection, the block runs as if we were
 *      not there;
 *   3. before a call that talks to the server, what the garbage collector has found of this client
 *      is freed (mysql_free.c), because that talks too;
 *   4. the block runs, and its waits park this fiber (mysql_wait.c). What was raised in a wait is
 *      raised here, once the library has returned and its frames are off the stack.
 *
 * Read after: mysql_wait.h, mysql_free.h.
 */
#include "drivers/mysql_call.h"
#include "drivers/mysql_free.h"
#include "drivers/mysql_wait.h"
#include "loop/wait.h"
#include <ruby/version.h>

static size_t client_offset; /* of the MYSQL* in mysql2's struct */
/* The offset of its `initialized`, which is the same in all releases that the cure accepts. Before
 * that is set, as after `Mysql2::Client.allocate`, the MYSQL is memory that nobody has written. */
enum { INITIALIZED_OFFSET = 40 };

/* Returns NULL if there is none yet. */
static nb_mysql_t *mysql_of(VALUE client)
{
    if (!RB_TYPE_P(client, T_DATA) || !RTYPEDDATA_P(client) ||
        strcmp(RTYPEDDATA_TYPE(client)->wrap_struct_name, "rb_mysql_client") != 0)
        rb_raise(rb_eTypeError, "not a Mysql2::Client: %" PRIsVALUE, rb_obj_class(client));
    char *wrapper = rb_check_typeddata(client, RTYPEDDATA_TYPE(client));
    return *(int *)(wrapper + INITIALIZED_OFFSET) ? *(nb_mysql_t **)(wrapper + client_offset)
                                                  : NULL;
}

#if RUBY_API_VERSION_CODE >= 30300
static VALUE nothing(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument))
{
    return Qnil;
}
#endif

/* Ends the fiber or the thread as the kill would have, which is no exception. */
static void kill_again(void)
{
#if RUBY_API_VERSION_CODE >= 30300
    rb_fiber_resume(rb_fiber_new(nothing, Qnil), 0, NULL); /* a Fiber#kill strikes at each switch */
#endif
    rb_thread_kill(rb_thread_current());
}

static void raise_again(VALUE raised)
{
    if (!nb_is_exception(raised))
        kill_again();
    rb_exc_raise(raised);
}

static VALUE close_client(VALUE client)
{
    return rb_funcall(client, rb_intern("close"), 0);
}

/* The library closes a connection that is gone when it waits for it. If it had no need to wait
 * after the interruption, the answer may still be to come, and the next query would get it. */
static void close_open(const nb_mysql_call_t *call)
{
    int tag;
    if (!call->mysql->socket)
        return;
    rb_protect(close_client, call->client, &tag);
    if (tag) /* what has interrupted the call comes first */
        rb_set_errinfo(Qnil);
}

static bool has_raised(void *call)
{
    return ((nb_mysql_call_t *)call)->refused;
}

/* @overload call(client, use)
 *   Runs the block, a call of mysql2 on client. In a loop, the client library waits in the loop.
 *   @param use [Symbol] :connect, :close or :talk; :talk first frees what the garbage collector
 *     has found of this client
 *   @yieldparam in_loop [Boolean]
 *   @return the block's value
 *   @raise what was raised in a wait; then the connection is closed
 *   @raise what {.in_use} raises, if another fiber waits inside the library for this client
 *   @scheduling may wait */
static VALUE rb_nb_mysql_wait_call(VALUE self, VALUE client, VALUE use)
{
    nb_loop_t *loop = nb_loop_current();
    nb_mysql_call_t *other = nb_mysql_parked_call(client);
    if (other)
        return rb_funcall(self, rb_intern("in_use"), 1, other->fiber);
    nb_mysql_t *mysql = loop ? mysql_of(client) : NULL;
    if (!mysql) /* mysql2 itself says what is wrong */
        return rb_yield(Qfalse);
    nb_mysql_call_t call = {
        .loop = loop,
        .fiber = rb_fiber_current(),
        .client = client,
        .mysql = mysql,
        .raised = Qundef,
    };
    int tag = 0;
    nb_mysql_call_begin(&call, use == ID2SYM(rb_intern("connect")));
    if (use == ID2SYM(rb_intern("talk")))
        nb_mysql_free_found(client, has_raised, &call);
    VALUE value = call.raised != Qundef ? Qnil : rb_protect(rb_yield, Qtrue, &tag);
    nb_mysql_call_end(&call);
    if (call.raised != Qundef) {
        close_open(&call);
        raise_again(call.raised);
    }
    if (tag)
        rb_jump_tag(tag);
    RB_GC_GUARD(client);
    return value;
}

static VALUE resume(VALUE call)
{
    nb_mysql_call_resume((nb_mysql_call_t *)call);
    return Qnil;
}

/* @overload aside
 *   Runs the block, which is the program's own, inside the block of {.call}, as if outside of it.
 *   @return the block's value
 *   @scheduling as the block */
static VALUE rb_nb_mysql_wait_aside(VALUE self)
{
    nb_mysql_call_t *call = nb_mysql_call_suspend(rb_fiber_current());
    return call ? rb_ensure(rb_yield, Qnil, resume, (VALUE)call) : rb_yield(Qnil);
}

/* @overload evict(client)
 *   Ends the call of another fiber that waits inside the library for this client: to that call, the
 *   connection is lost. For callers that want to close the client.
 *   @return [void]
 *   @scheduling may wait, until that fiber has had its turn */
static VALUE rb_nb_mysql_wait_evict(VALUE self, VALUE client)
{
    nb_loop_t *loop = nb_loop_current();
    nb_mysql_call_t *other;
    while ((other = nb_mysql_parked_call(client)) && loop == other->loop) {
        nb_park_t *park = nb_park_of(loop, other->fiber);
        other->refused = true;
        if (park)
            nb_wake(park, NB_WOKEN);
        nb_yield(loop);
    }
    return Qnil;
}

static VALUE check_typed(VALUE object)
{
    if (!RB_TYPE_P(object, T_DATA) || !RTYPEDDATA_P(object))
        rb_raise(rb_eTypeError, "not an object of mysql2: %" PRIsVALUE, rb_obj_class(object));
    return object;
}

/* @overload free_later(object, client, streams)
 *   In a loop, lets the client's next call free object, once the garbage collector has found it.
 *   @param object [Mysql2::Statement, Mysql2::Result]
 *   @param streams [Boolean] whether it is a streamed result
 *   @return [void] */
static VALUE rb_nb_mysql_wait_free_later(VALUE self, VALUE object, VALUE client, VALUE streams)
{
    mysql_of(client);
    if (nb_loop_current())
        nb_mysql_free_later(check_typed(object), client, RTEST(streams), client_offset);
    return Qnil;
}

/* @overload has_read(result)
 *   Notes that the streamed result was read to its end, or freed.
 *   @return [void] */
static VALUE rb_nb_mysql_wait_has_read(VALUE self, VALUE result)
{
    nb_mysql_free_has_read(check_typed(result));
    return Qnil;
}

/* @overload in_transaction?(client)
 *   @return [Boolean] according to the last answer */
static VALUE rb_nb_mysql_wait_in_transaction(VALUE self, VALUE client)
{
    nb_mysql_t *mysql = mysql_of(client);
    return mysql && nb_mysql_in_transaction(mysql) ? Qtrue : Qfalse;
}

/* @overload made_by?(client, statement)
 *   @return [Boolean] */
static VALUE rb_nb_mysql_wait_made_by(VALUE self, VALUE client, VALUE statement)
{
    /* mysql2's struct of a statement begins with its client. */
    return *(VALUE *)RTYPEDDATA_DATA(check_typed(statement)) == client ? Qtrue : Qfalse;
}

/* @overload attach(path, offset)
 *   @param path [String] mysql2's shared object
 *   @param offset [Integer] where in its struct the MYSQL* is
 *   @return [Array(String, Boolean), String] the library's version, and whether TLS waits too; or
 *     why the library cannot wait in a loop */
static VALUE rb_nb_mysql_wait_attach(VALUE self, VALUE path, VALUE offset)
{
    const char *reason = nb_mysql_library_open(StringValueCStr(path));
    if (reason)
        return rb_str_new_cstr(reason);
    client_offset = NUM2SIZET(offset);
    bool tls_waits = nb_mysql_wait_init();
    return rb_assoc_new(rb_str_new_cstr(nb_mysql_library_version()), tls_waits ? Qtrue : Qfalse);
}

void Init_nb_mysql_call(VALUE mNB)
{
    VALUE mDrivers = rb_define_module_under(mNB, "Drivers");
    VALUE mWait = rb_define_module_under(mDrivers, "MysqlWait");
    rb_define_singleton_method(mWait, "aside", rb_nb_mysql_wait_aside, 0);
    rb_define_singleton_method(mWait, "attach", rb_nb_mysql_wait_attach, 2);
    rb_define_singleton_method(mWait, "call", rb_nb_mysql_wait_call, 2);
    rb_define_singleton_method(mWait, "evict", rb_nb_mysql_wait_evict, 1);
    rb_define_singleton_method(mWait, "free_later", rb_nb_mysql_wait_free_later, 3);
    rb_define_singleton_method(mWait, "has_read", rb_nb_mysql_wait_has_read, 1);
    rb_define_singleton_method(mWait, "in_transaction?", rb_nb_mysql_wait_in_transaction, 1);
    rb_define_singleton_method(mWait, "made_by?", rb_nb_mysql_wait_made_by, 2);
}
