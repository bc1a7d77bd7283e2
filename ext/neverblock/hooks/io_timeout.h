/* io_timeout.h - IO#timeout, which Ruby has since 3.2. Uses ruby.h. */
#ifndef NB_HOOKS_IO_TIMEOUT_H
#define NB_HOOKS_IO_TIMEOUT_H

#include <ruby.h>

/* Seconds, or nil: none. */
VALUE nb_io_timeout(VALUE io);

/* Raises IO::TimeoutError. */
NORETURN(void nb_io_timeout_raise(void));

/* Must be called before io_wait returns false, with the timeout that it was given. May raise
 * IO::TimeoutError. Leaves errno as the calling method of Ruby expects it. */
void nb_io_timed_out(VALUE timeout);

#endif
