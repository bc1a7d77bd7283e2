/* mode.c - files in blocking mode, whose calls stop the loop's thread. Uses ruby.h. Read after:
 * mode.h, descriptor.h. */
#include "hooks/mode.h"
#include "hooks/descriptor.h"
#include "hooks/hooks.h"
#include <fcntl.h>
#include <sys/stat.h>

void nb_mode_unblock(VALUE socket)
{
    if (nb_io_is_closed(socket)) /* the call itself raises */
        return;
    int fd = rb_io_descriptor(socket);
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK))
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* @!visibility private - whether read(2), or write(2) if writing, may stop the thread: of a
 *   terminal, a FIFO and the like in blocking mode. Other programs may share these, so they keep
 *   their mode. */
static VALUE rb_nb_native_may_stop_p(VALUE mod, VALUE io, VALUE writing)
{
    if (RTEST(writing) && RFILE(io)->fptr)
        io = rb_io_get_write_io(io);
    if (!RFILE(io)->fptr || nb_io_is_closed(io))
        return Qfalse;
    if (!(nb_io_mode(io) & (RTEST(writing) ? FMODE_WRITABLE : FMODE_READABLE)))
        return Qfalse; /* the call itself raises */
    if (nb_io_is_socket(io))
        nb_mode_unblock(io);
    int fd = rb_io_descriptor(io), flags = fcntl(fd, F_GETFL);
    struct stat info;
    if (flags < 0 || (flags & O_NONBLOCK) || fstat(fd, &info) < 0)
        return Qfalse;
    bool stops = S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode) || S_ISSOCK(info.st_mode);
    return stops ? Qtrue : Qfalse;
}

void Init_nb_hooks_mode(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "may_stop?", rb_nb_native_may_stop_p,
                               2);
}
