/* mode.c - files in blocking mode, whose calls stop the loop's thread. Uses ruby.h. Read after:
 * mode.h, descriptor.h. */
#include "hooks/mode.h"
#include "base/ptrmap.h"
#include "hooks/descriptor.h"
#include "hooks/hooks.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* An SSLSocket is no IO, but has one. */
static VALUE file_of(VALUE socket)
{
    static ID to_io;
    if (RB_TYPE_P(socket, T_FILE))
        return socket;
    if (!to_io)
        to_io = rb_intern("to_io");
    VALUE io = rb_check_funcall(socket, to_io, 0, NULL);
    return RB_TYPE_P(io, T_FILE) ? io : Qnil;
}

bool nb_mode_unblock(VALUE socket)
{
    socket = file_of(socket);
    if (NIL_P(socket) || nb_io_is_closed(socket)) /* the call itself raises */
        return false;
    int fd = rb_io_descriptor(socket);
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* @!visibility private - undoes nb_mode_unblock, if the socket is still open. */
static VALUE rb_nb_native_block(VALUE mod, VALUE socket)
{
    if (!nb_io_is_closed(socket)) {
        int fd = rb_io_descriptor(socket);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    }
    return Qnil;
}

typedef struct {
    VALUE socket;
    ID method;
    int argc;
    const VALUE *argv;
} nb_call_t;

/* Sockets that nb_mode_unblocked has changed -> how many calls are inside. Each is on their stacks.
 * Under the interpreter's lock. */
static nb_ptrmap_t unblocked;

static VALUE call_method(VALUE argument)
{
    const nb_call_t *call = (nb_call_t *)argument;
    return rb_funcallv(call->socket, call->method, call->argc, call->argv);
}

static VALUE leave_unblocked(VALUE argument)
{
    const nb_call_t *call = (nb_call_t *)argument;
    uintptr_t count = (uintptr_t)nb_ptrmap_get(&unblocked, call->socket);
    if (count > 1) {
        nb_ptrmap_put(&unblocked, call->socket, (void *)(count - 1));
        return Qnil;
    }
    nb_ptrmap_remove(&unblocked, call->socket);
    return rb_nb_native_block(Qnil, call->socket);
}

VALUE nb_mode_unblocked(VALUE socket, ID method, int argc, const VALUE *argv)
{
    nb_call_t call = {socket, method, argc, argv};
    if (nb_ptrmap_reserve(&unblocked) < 0)
        rb_memerror();
    uintptr_t count = (uintptr_t)nb_ptrmap_get(&unblocked, socket);
    if (!nb_mode_unblock(socket) && !count)
        return call_method((VALUE)&call);
    nb_ptrmap_put(&unblocked, socket, (void *)(count + 1));
    return rb_ensure(call_method, (VALUE)&call, leave_unblocked, (VALUE)&call);
}

static bool is_blocking(VALUE io)
{
    int flags = nb_io_is_closed(io) ? -1 : fcntl(rb_io_descriptor(io), F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK);
}

bool nb_mode_blocks_stream(VALUE socket)
{
    int type = 0;
    socklen_t length = sizeof(type);
    return is_blocking(socket) &&
           getsockopt(rb_io_descriptor(socket), SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
           type == SOCK_STREAM;
}

/* @!visibility private - whether read(2), or write(2) if writing, may stop the thread: of a
 *   terminal, a FIFO, a socket in blocking mode. Other programs may share these, so they keep their
 *   mode. nil: it will raise IOError. */
static VALUE rb_nb_native_may_stop_p(VALUE mod, VALUE io, VALUE writing)
{
    if (RTEST(writing) && RFILE(io)->fptr)
        io = rb_io_get_write_io(io);
    if (!RFILE(io)->fptr || nb_io_is_closed(io) ||
        !(nb_io_mode(io) & (RTEST(writing) ? FMODE_WRITABLE : FMODE_READABLE)))
        return Qnil; /* the call itself raises */
    struct stat info;
    if (!is_blocking(io) || fstat(rb_io_descriptor(io), &info) < 0)
        return Qfalse;
    bool stops = S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode) || S_ISSOCK(info.st_mode);
    return stops ? Qtrue : Qfalse;
}

/* @!visibility private - whether the file that an IO writes to is in blocking mode. */
static VALUE rb_nb_native_blocking_p(VALUE mod, VALUE io)
{
    return RFILE(io)->fptr && is_blocking(rb_io_get_write_io(io)) ? Qtrue : Qfalse;
}

/* @!visibility private - as nb_fd_lingers. */
static VALUE rb_nb_native_lingers_p(VALUE mod, VALUE io)
{
    if (!nb_io_is_socket(io) || !RFILE(io)->fptr || nb_io_is_closed(io))
        return Qfalse;
    return nb_fd_lingers(rb_io_descriptor(io)) ? Qtrue : Qfalse;
}

void Init_nb_hooks_mode(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "lingers?", rb_nb_native_lingers_p, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "block", rb_nb_native_block, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "blocking?", rb_nb_native_blocking_p,
                               1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "may_stop?", rb_nb_native_may_stop_p,
                               2);
}
