/* counted.c - calls that need no wait and reach no hook, counted all the same. Uses ruby.h.
 * Read after: wait.h.
 *
 * While there is data, recv or read_nonblock from a fast sender (Net::HTTP) asks nobody: its fiber
 * would never let the others run. And a socket in blocking mode would stop them all. So calls that
 * take flags get MSG_DONTWAIT, as the hooks do; the socket keeps its mode, which other processes
 * may share. In blocking mode the kernel sends a whole message, and receives all that MSG_WAITALL
 * asks for: NB::Repairs does the rest of those, piece by piece.
 *
 * One that only looks (recv_nonblock with MSG_PEEK, as io-stream asks whether a connection is
 * alive) is part of a step for the program: async-pool asks each of its connections while it
 * iterates over them. Only very many of those let others run.
 */
#include "hooks/hooks.h"
#include "hooks/mode.h"
#include <ruby/fiber/scheduler.h>
#include <ruby/ractor.h>
#include <sys/socket.h>

/* By the name under which it is called; the original runs through its alias. */
typedef struct {
    ID name, original;
    bool waits;           /* not one of the *_nonblock, which never stop the thread */
    bool accepts;         /* one that waits */
    bool sends, receives; /* (message or length, flags, ...) */
} counted_t;

#define PEEK_LIMIT 1024
#define FLAGS_AT 1
#define MOST_ARGUMENTS 5

static counted_t counted[32];
static size_t counted_count;

static const counted_t *counted_as(ID name)
{
    for (size_t i = 0; i < counted_count; i++)
        if (counted[i].name == name)
            return &counted[i];
    return NULL;
}

static nb_loop_t *loop_here(void)
{
    VALUE scheduler = rb_fiber_scheduler_current();
    if (!nb_is_loop(scheduler))
        return NULL;
    nb_loop_t *loop = RTYPEDDATA_DATA(scheduler);
    return loop->closed || loop->thread != rb_thread_current() ? NULL : loop;
}

static void count_call(nb_loop_t *loop)
{
    bool late = nb_slice_is_over(loop);
    if ((++loop->eager < NB_EAGER_LIMIT && !late) || !nb_may_yield(loop))
        return;
    if (late)
        loop->since_poll = NB_POLL_EVERY;
    nb_yield(loop);
}

static void count_look(nb_loop_t *loop)
{
    if (++loop->eager >= PEEK_LIMIT && nb_may_yield(loop))
        nb_yield(loop);
}

/* Whether the kernel would do the whole at once, and we must. */
static bool is_whole(VALUE socket, int flags)
{
    return !(flags & MSG_DONTWAIT) && nb_mode_blocks_stream(socket);
}

static VALUE call_whole(const char *helper, VALUE socket, ID original, int argc, const VALUE *argv)
{
    VALUE arguments[MOST_ARGUMENTS + 3] = {socket, ID2SYM(original)};
    memcpy(arguments + 2, argv, (size_t)argc * sizeof(*argv));
    return rb_funcallv(rb_path2class("NB::Repairs"), rb_intern(helper), argc + 2, arguments);
}

/* Calls the original with flags that do not wait in the kernel: it tells Ruby, which waits in the
 * loop and tries again. */
static VALUE call_with_flags(const counted_t *method, int argc, const VALUE *given, VALUE self)
{
    VALUE argv[MOST_ARGUMENTS] = {given[0]};
    int flags = argc > FLAGS_AT ? FIX2INT(given[FLAGS_AT]) : 0;
    memcpy(argv, given, (size_t)argc * sizeof(*argv));
    argv[FLAGS_AT] = INT2FIX(flags | MSG_DONTWAIT);
    if (argc == FLAGS_AT)
        argc++;
    if (method->receives && (flags & MSG_WAITALL) && is_whole(self, flags))
        return call_whole(flags & MSG_PEEK ? "peek_all" : "receive_all", self, method->original,
                          argc, argv);
    VALUE result = rb_funcallv(self, method->original, argc, argv);
    VALUE message = method->sends ? rb_check_string_type(argv[0]) : Qnil;
    if (NIL_P(message) || !FIXNUM_P(result) || FIX2LONG(result) >= RSTRING_LEN(message) ||
        !is_whole(self, flags))
        return result;
    VALUE rest[MOST_ARGUMENTS + 1] = {result};
    memcpy(rest + 1, argv, (size_t)argc * sizeof(*argv));
    return call_whole("send_rest", self, method->original, argc + 1, rest);
}

/* The original raises for other arguments. */
static bool takes_flags(const counted_t *method, int argc, const VALUE *argv)
{
    if (argc > MOST_ARGUMENTS || argc < (method->sends ? FLAGS_AT + 1 : FLAGS_AT))
        return false;
    return (method->sends || method->receives) && (argc == FLAGS_AT || FIXNUM_P(argv[FLAGS_AT]));
}

static bool only_looks(const counted_t *method, int argc, const VALUE *argv)
{
    return !method->waits && argc > FLAGS_AT && FIXNUM_P(argv[FLAGS_AT]) &&
           (FIX2INT(argv[FLAGS_AT]) & MSG_PEEK);
}

static VALUE call_counted(int argc, VALUE *argv, VALUE self)
{
    int keywords = rb_keyword_given_p() ? RB_PASS_KEYWORDS : RB_NO_KEYWORDS;
    const counted_t *method = counted_as(rb_frame_this_func());
    nb_loop_t *loop = loop_here();
    if (loop) {
        if (only_looks(method, argc, argv))
            count_look(loop);
        else
            count_call(loop);
        if (!keywords && takes_flags(method, argc, argv))
            return call_with_flags(method, argc, argv, self);
        if (method->accepts)
            nb_mode_unblock(self); /* for good: of several processes that wait, one gets it */
        else if (method->waits)
            return nb_mode_unblocked(self, method->original, argc, argv);
    }
    return rb_funcallv_kw(self, method->original, argc, argv, keywords);
}

static VALUE call_counted_with_one(VALUE self, VALUE argument)
{
    return call_counted(1, &argument, self);
}

static VALUE call_counted_with_none(VALUE self)
{
    return call_counted(0, NULL, self);
}

static VALUE call_counted_with_four(VALUE self, VALUE first, VALUE second, VALUE third,
                                    VALUE fourth)
{
    return call_counted(4, (VALUE[]){first, second, third, fourth}, self);
}

static VALUE call_counted_with_five(VALUE self, VALUE first, VALUE second, VALUE third,
                                    VALUE fourth, VALUE fifth)
{
    return call_counted(5, (VALUE[]){first, second, third, fourth, fifth}, self);
}

static void define_counted(VALUE klass, ID name)
{
    switch (rb_mod_method_arity(klass, name)) {
    case 0:
        rb_define_method_id(klass, name, call_counted_with_none, 0);
        break;
    case 1:
        rb_define_method_id(klass, name, call_counted_with_one, 1);
        break;
    case 4:
        rb_define_method_id(klass, name, call_counted_with_four, 4);
        break;
    case 5:
        rb_define_method_id(klass, name, call_counted_with_five, 5);
        break;
    default: /* the original raises for a wrong number */
        rb_define_method_id(klass, name, call_counted, -1);
    }
}

static void note_kind(counted_t *method, const char *name)
{
    method->waits = !strstr(name, "_nonblock");
    method->accepts = !strcmp(name, "accept") || !strcmp(name, "sysaccept");
    method->sends = !strcmp(name, "send") || !strcmp(name, "__sendmsg");
    method->receives =
        !strcmp(name, "recv") || !strcmp(name, "recvfrom") || !strcmp(name, "__recvmsg");
}

/* @!visibility private - from now on calls of klass#name count; name: Symbol of a method in C. */
static VALUE rb_nb_native_count_calls(VALUE mod, VALUE klass, VALUE name)
{
    ID id = SYM2ID(name);
    bool is_private = RTEST(rb_funcall(klass, rb_intern("private_method_defined?"), 1, name));
    if (!counted_as(id)) {
        if (counted_count == sizeof(counted) / sizeof(*counted))
            rb_raise(rb_eRuntimeError, "count_calls: no room for another name");
        counted[counted_count] = (counted_t){
            .name = id,
            .original = rb_intern_str(rb_sprintf("__nb_uncounted_%" PRIsVALUE, name)),
        };
        note_kind(&counted[counted_count++], rb_id2name(id));
    }
    nb_keep_original(klass, counted_as(id)->original, id);
    rb_ext_ractor_safe(true); /* other Ractors have no loop: there it is the original */
    define_counted(klass, id);
    rb_ext_ractor_safe(false);
    if (is_private)
        rb_funcall(klass, rb_intern("private"), 1, name);
    return Qnil;
}

/* @!visibility private - the caller did I/O that needed no wait. */
static VALUE rb_nb_native_count_call(VALUE mod)
{
    nb_loop_t *loop = loop_here();
    if (loop)
        count_call(loop);
    return Qnil;
}

/* @!visibility private - the same before a socket's call that may wait. Returns whether the socket
 *   was in blocking mode until then. */
static VALUE rb_nb_native_count_wait(VALUE mod, VALUE socket)
{
    nb_loop_t *loop = loop_here();
    if (!loop)
        return Qfalse;
    count_call(loop);
    return nb_mode_unblock(socket) ? Qtrue : Qfalse;
}

/* @!visibility private - lets the other fibers of the loop run, if one runs the caller. */
static VALUE rb_nb_native_pass(VALUE mod)
{
    nb_loop_t *loop = loop_here();
    if (!loop || !nb_may_yield(loop))
        return Qnil;
    loop->since_poll = NB_POLL_EVERY;
    nb_yield(loop);
    return Qnil;
}

void Init_nb_hooks_counted(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "count_calls", rb_nb_native_count_calls, 2);
    rb_ext_ractor_safe(true);
    rb_define_singleton_method(mNative, "count_call", rb_nb_native_count_call, 0);
    rb_define_singleton_method(mNative, "count_wait", rb_nb_native_count_wait, 1);
    rb_define_singleton_method(mNative, "pass", rb_nb_native_pass, 0);
    rb_ext_ractor_safe(false);
}
