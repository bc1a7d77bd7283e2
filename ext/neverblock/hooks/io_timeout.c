/* io_timeout.c - what Ruby expects when IO#timeout has ended a wait. Uses ruby.h.
 *
 * Read after: io_timeout.h.
 */
#include "hooks/io_timeout.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <ruby/debug.h>
#include <ruby/io.h>
#include <ruby/version.h>
#include <string.h>

#ifdef HAVE_RB_IO_TIMEOUT
VALUE nb_io_timeout(VALUE io)
{
    return rb_io_timeout(io);
}
#else
VALUE nb_io_timeout(VALUE io)
{
    (void)io;
    return Qnil;
}
#define rb_eIOTimeoutError rb_eIOError
#endif

void nb_io_timeout_raise(void)
{
    rb_raise(rb_eIOTimeoutError, "Blocking operation timed out!");
}

/* Of IO's own methods, only IO#wait and its variants want to know that nothing came. */
static bool wants_false(VALUE frame)
{
    VALUE owner = rb_profile_frame_classpath(frame), name = rb_profile_frame_method_name(frame);
    VALUE place = rb_profile_frame_absolute_path(frame); /* <cfunc> */
    if (NIL_P(place))
        place = rb_profile_frame_path(frame); /* <internal:io> */
    return NIL_P(owner) || NIL_P(name) || NIL_P(place) || RSTRING_PTR(place)[0] != '<' ||
           strcmp(StringValueCStr(owner), "IO") || !strncmp(StringValueCStr(name), "wait", 4);
}

/* Ruby 3.2 and 3.3 take the false for an error, and look at errno: they raise Errno::EAGAIN where
 * blocking Ruby raises IO::TimeoutError, or end with "[BUG] errno == 0". Methods of sockets do
 * raise EAGAIN there. Ruby 3.4 raises IO::TimeoutError with another text than blocking Ruby, and
 * its copy_stream takes the false for an Integer. */
void nb_io_timed_out(VALUE timeout)
{
    VALUE frame = NIL_P(timeout) ? nb_caller_frame() : Qnil;
    if (!NIL_P(frame) && !wants_false(frame))
        nb_io_timeout_raise();
    errno = EAGAIN;
}
