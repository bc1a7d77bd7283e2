/* descriptor.c - the fd of an IO: obtained, checked again after a wait, given up. Uses ruby.h.
 * Read after: descriptor.h, fdtable.h. */
#include "hooks/descriptor.h"
#include <errno.h>
#include <ruby/io.h>
#include <ruby/version.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

VALUE nb_io_of(VALUE io)
{
    return RB_TYPE_P(io, T_FILE) ? io : rb_io_get_io(io);
}

bool nb_io_is_closed(VALUE io)
{
#ifdef HAVE_RB_IO_CLOSED_P
    return RTEST(rb_io_closed_p(io));
#else
    return !RFILE(io)->fptr || RFILE(io)->fptr->fd < 0;
#endif
}

bool nb_io_is_socket(VALUE io)
{
    static ID name; /* the library may be loaded later, or never */
    if (!name)
        name = rb_intern("BasicSocket");
    return rb_const_defined(rb_cObject, name) &&
           RTEST(rb_obj_is_kind_of(io, rb_const_get(rb_cObject, name)));
}

int nb_io_mode(VALUE io)
{
#ifdef HAVE_RB_IO_CLOSED_P
    return rb_io_mode(io);
#else
    return RFILE(io)->fptr->mode;
#endif
}

void nb_descriptor_has_no_slot(const nb_descriptor_t *descriptor)
{
    rb_syserr_fail(descriptor->fd < 0 ? EBADF : ENOMEM, NULL);
}

void nb_descriptor_is_lost(void)
{
    rb_raise(rb_eIOError, "stream closed in another thread");
}

/* ---- giving it up -------------------------------------------------------------------------- */

static void announce(int fd)
{
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next)
        nb_fdtable_closing(&nb_container_of(item, nb_loop_t, link)->fds, fd);
}

static void announce_io(VALUE io)
{
    if (!nb_io_is_closed(io))
        announce(rb_io_descriptor(io));
}

/* What a two-way IO keeps when one direction is closed: a pipe's other fd, or for a socket
 * everything, because shutdown(2) wakes the waiting fibers. */
static void announce_half(VALUE io, VALUE writing, bool reads)
{
    if (io != writing)
        announce_io(reads ? io : writing);
    else if (!nb_io_is_closed(io) && !(nb_io_mode(io) & (reads ? FMODE_WRITABLE : FMODE_READABLE)))
        announce_io(io);
}

/* @!visibility private - every open loop wakes the fibers that wait for the fds which `method`
 *   gives up: it is about to be called (:close, :close_read, :close_write), or has been
 *   (:reopen). */
static VALUE rb_nb_native_closing(VALUE mod, VALUE io, VALUE method)
{
    ID name = SYM2ID(method);
    if (!RFILE(io)->fptr)
        return Qnil;
    VALUE writing = rb_io_get_write_io(io);
    if (name == rb_intern("close_read") || name == rb_intern("close_write")) {
        announce_half(io, writing, name == rb_intern("close_read"));
        return Qnil;
    }
    announce_io(io);
    if (writing != io && name == rb_intern("close"))
        announce_io(writing);
    return Qnil;
}

/* After close_read of a two-way pipe, an IO has the stream of another object, and that one has the
 * closed stream. But Ruby (3.1 to 4.0) still passes the other object to the hooks, so a write would
 * end at its first wait. A stream begins with its object; from 4.0 on the rest is private. */
static void adopt_stream(VALUE io, VALUE other)
{
    VALUE *stream = (VALUE *)RFILE(io)->fptr;
    if (stream && *stream == other)
        *stream = io;
}

/* @!visibility private - announces it, and calls the method's original at once: whoever waits
 *   from then on finds the IO closed. Between the two no other thread or fiber may run, so nothing
 *   may be unwritten (flush_before).
 *   @return what the original returns */
static VALUE rb_nb_native_close(VALUE mod, VALUE io, VALUE method, VALUE original)
{
    VALUE writing = RFILE(io)->fptr ? rb_io_get_write_io(io) : io;
    rb_nb_native_closing(mod, io, method);
    VALUE result = rb_funcallv(io, SYM2ID(original), 0, NULL);
    adopt_stream(io, writing);
    return result;
}

/* @!visibility private - calls IO#close_read's original, from Ruby 4.0 on.
 *   @return what that returns */
static VALUE rb_nb_native_close_read(VALUE mod, VALUE io, VALUE original)
{
    VALUE writing = RFILE(io)->fptr ? rb_io_get_write_io(io) : io;
    VALUE result = rb_funcallv(io, SYM2ID(original), 0, NULL);
    adopt_stream(io, writing);
    return result;
}

/* @!visibility private - the IO object that an IO writes by: itself, or of a child's IO another. */
static VALUE rb_nb_native_write_io(VALUE mod, VALUE io)
{
    return rb_io_get_write_io(io);
}

/* @!visibility private - writes what a close, or a close_write of a pipe, would write first.
 *   @scheduling may wait */
static VALUE rb_nb_native_flush_before(VALUE mod, VALUE io, VALUE method)
{
    ID name = SYM2ID(method);
    VALUE writing = RFILE(io)->fptr ? rb_io_get_write_io(io) : io;
    bool writes =
        name == rb_intern("close_write") ? writing != io : name != rb_intern("close_read");
    if (!writes || !RFILE(writing)->fptr || nb_io_is_closed(writing))
        return Qnil;
    if (OBJ_FROZEN(writing)) /* Ruby closes it, but lets nobody flush it */
        return Qnil;
    int mode = nb_io_mode(writing);
    if ((mode & FMODE_WRITABLE) && !(mode & FMODE_SYNC))
        rb_io_flush(writing);
    return Qnil;
}

bool nb_fd_lingers(int fd)
{
    struct linger linger = {0};
    socklen_t length = sizeof(linger);
    int left = 0;
    return getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length) == 0 && linger.l_onoff &&
           linger.l_linger && ioctl(fd, TIOCOUTQ, &left) == 0 && left > 0;
}

/* @overload io_close(fd)
 *   Wakes the fibers that wait for the fd (called by Ruby >= 4.0). Ruby closes it then, and lets
 *   other threads run meanwhile. A socket that lingers is closed by a thread.
 *   @param fd [Integer]
 *   @return [Boolean] whether it is closed already
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_close(VALUE self, VALUE io)
{
    int fd = RB_INTEGER_TYPE_P(io) ? NUM2INT(io) : rb_io_descriptor(io);
    announce(fd);
    return nb_fd_lingers(fd) ? rb_funcall(self, rb_intern("close_elsewhere"), 1, INT2NUM(fd))
                             : Qfalse;
}

void Init_nb_hooks_descriptor(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_close", rb_nb_scheduler_io_close, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "closing", rb_nb_native_closing, 2);
    rb_define_singleton_method(rb_path2class("NB::Native"), "close", rb_nb_native_close, 3);
    rb_define_singleton_method(rb_path2class("NB::Native"), "close_read", rb_nb_native_close_read,
                               2);
    rb_define_singleton_method(rb_path2class("NB::Native"), "write_io", rb_nb_native_write_io, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "flush_before",
                               rb_nb_native_flush_before, 2);
}
