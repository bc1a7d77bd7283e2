/* delayd_ruby.c - NB::DelayServer, the delay server as Ruby sees it. Uses ruby.h.
 *
 * Read after: delayd.h.
 * Used by: lib/neverblock/cli/delay_server.rb, which checks the options and documents the class.
 */
#include <ruby.h>
#include <ruby/thread.h>

#include "delayd/delayd_ruby.h"

#ifdef NB_EPOLL
#include <errno.h>

#include "delayd/delayd.h"

typedef struct {
    nb_delayd_t server;
    bool listening, running;
    int result;
} delay_server_t;

static void delay_server_free(void *pointer)
{
    delay_server_t *delay_server = pointer;
    if (delay_server->listening)
        nb_delayd_close(&delay_server->server);
    xfree(delay_server);
}

static size_t delay_server_size(const void *pointer)
{
    const delay_server_t *delay_server = pointer;
    return sizeof(*delay_server) +
           (delay_server->listening
                ? NB_DELAYD_IN_BYTES + NB_DELAYD_OUT_BYTES + NB_DELAYD_PATTERN_BYTES
                : 0);
}

static const rb_data_type_t delay_server_type = {
    .wrap_struct_name = "NB::DelayServer",
    .function = {.dfree = delay_server_free, .dsize = delay_server_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE delay_server_allocate(VALUE klass)
{
    delay_server_t *delay_server;
    return TypedData_Make_Struct(klass, delay_server_t, &delay_server_type, delay_server);
}

static delay_server_t *get(VALUE self)
{
    delay_server_t *delay_server;
    TypedData_Get_Struct(self, delay_server_t, &delay_server_type, delay_server);
    return delay_server;
}

static delay_server_t *get_listening(VALUE self)
{
    delay_server_t *delay_server = get(self);
    if (!delay_server->listening)
        rb_raise(rb_eIOError, "the delay server is closed");
    return delay_server;
}

/* listen(bind, port, delay_ns, body_bytes, close, shared): checked by the Ruby side. */
static VALUE rb_nb_delay_server_listen(int argc, VALUE *argv, VALUE self)
{
    delay_server_t *delay_server = get(self);
    nb_delayd_options_t options;
    int error;
    rb_check_arity(argc, 6, 6);
    if (delay_server->listening)
        rb_raise(rb_eIOError, "the delay server is already listening");
    options = (nb_delayd_options_t){.bind = StringValueCStr(argv[0]),
                                    .port = (uint16_t)NUM2UINT(argv[1]),
                                    .delay_ns = NUM2ULL(argv[2]),
                                    .body_bytes = NUM2ULL(argv[3]),
                                    .close = RTEST(argv[4]),
                                    .shared = RTEST(argv[5])};
    error = nb_delayd_open(&delay_server->server, &options);
    if (error)
        rb_syserr_fail_str(-error, rb_sprintf("%" PRIsVALUE " port %u", argv[0], options.port));
    delay_server->listening = true;
    return self;
}

/*
 * The port on which it listens, also if 0 was given.
 *
 * @return [Integer] 1 to 65535
 * @raise [IOError] after #close
 * @scheduling never waits
 */
static VALUE rb_nb_delay_server_port(VALUE self)
{
    return UINT2NUM(get_listening(self)->server.port);
}

static void *run_without_gvl(void *pointer)
{
    delay_server_t *delay_server = pointer;
    delay_server->result = nb_delayd_run(&delay_server->server);
    return NULL;
}

static void interrupt(void *pointer)
{
    delay_server_t *delay_server = pointer;
    nb_delayd_interrupt(&delay_server->server);
}

/* Before it returns, rb_thread_call_without_gvl checks interrupts itself: a signal's handler runs,
 * Thread#raise raises. If it returns normally, the run continues. */
static VALUE run(VALUE self)
{
    delay_server_t *delay_server = get(self);
    do
        rb_thread_call_without_gvl(run_without_gvl, delay_server, interrupt, delay_server);
    while (delay_server->result == -EINTR);
    if (delay_server->result < 0)
        rb_syserr_fail(-delay_server->result, "nb_delayd_run");
    return self;
}

static VALUE end_of_run(VALUE self)
{
    get(self)->running = false;
    return Qnil;
}

/*
 * Serves until #stop is called, or an exception reaches this thread, such as that of a signal.
 * Meanwhile Ruby's other threads run; the fibers of this thread do not.
 *
 * @return [self]
 * @raise [IOError] after #close, or if it runs already
 * @scheduling always waits
 * @thread any
 */
static VALUE rb_nb_delay_server_run(VALUE self)
{
    delay_server_t *delay_server = get_listening(self);
    if (delay_server->running)
        rb_raise(rb_eIOError, "the delay server is already running");
    delay_server->running = true;
    return rb_ensure(run, self, end_of_run, self);
}

/*
 * Makes #run return: now, or as soon as it is called.
 *
 * @return [self]
 * @scheduling never waits
 * @thread any
 */
static VALUE rb_nb_delay_server_stop(VALUE self)
{
    delay_server_t *delay_server = get(self);
    if (delay_server->listening)
        nb_delayd_stop(&delay_server->server);
    return self;
}

/*
 * Closes the listener and every connection. A second call does nothing.
 *
 * @return [nil]
 * @raise [IOError] while #run has not returned
 * @scheduling never waits
 */
static VALUE rb_nb_delay_server_close(VALUE self)
{
    delay_server_t *delay_server = get(self);
    if (delay_server->running)
        rb_raise(rb_eIOError,
                 "the delay server is still running: stop it and wait for #run to return");
    if (delay_server->listening)
        nb_delayd_close(&delay_server->server);
    delay_server->listening = false;
    return Qnil;
}

/*
 * Counts what the server has done so far.
 *
 * @return [Hash{Symbol => Integer}] accepted and open connections, answered requests, and those
 *   refused with 400
 * @scheduling never waits
 * @thread any
 */
static VALUE rb_nb_delay_server_stats(VALUE self)
{
    const nb_delayd_stats_t *stats = &get(self)->server.stats;
    VALUE hash = rb_hash_new();
#define COUNTER(name)                                                                              \
    rb_hash_aset(hash, ID2SYM(rb_intern(#name)),                                                   \
                 ULL2NUM(__atomic_load_n(&stats->name, __ATOMIC_RELAXED)))
    COUNTER(accepted);
    COUNTER(open);
    COUNTER(answered);
    COUNTER(refused);
#undef COUNTER
    return hash;
}

void Init_nb_delayd(VALUE mNB)
{
    VALUE klass = rb_define_class_under(mNB, "DelayServer", rb_cObject);
    rb_define_alloc_func(klass, delay_server_allocate);
    rb_define_private_method(klass, "listen", rb_nb_delay_server_listen, -1);
    rb_define_method(klass, "port", rb_nb_delay_server_port, 0);
    rb_define_method(klass, "run", rb_nb_delay_server_run, 0);
    rb_define_method(klass, "stop", rb_nb_delay_server_stop, 0);
    rb_define_method(klass, "close", rb_nb_delay_server_close, 0);
    rb_define_method(klass, "stats", rb_nb_delay_server_stats, 0);
}
#else
void Init_nb_delayd(VALUE mNB)
{
    (void)mNB; /* NB::DelayServer needs epoll */
}
#endif
