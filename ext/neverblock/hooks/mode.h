/* mode.h - files in blocking mode, whose calls stop the loop's thread. Uses ruby.h.
 *
 * Ruby makes its sockets and pipes non-blocking, tries a call, and waits through the scheduler when
 * the answer is EAGAIN. A socket that came from outside (for_fd, as from systemd) or was told
 * nonblock = false never answers so.
 */
#ifndef NB_HOOKS_MODE_H
#define NB_HOOKS_MODE_H

#include <ruby.h>

/* Makes an open socket non-blocking, and it stays so, as after Ruby's own accept_nonblock. Returns
 * whether it was not. */
bool nb_mode_unblock(VALUE socket);

/* Calls a socket's method, during which the socket is non-blocking. */
VALUE nb_mode_unblocked(VALUE socket, ID method, int argc, const VALUE *argv);

/* Whether it is a stream socket in blocking mode. */
bool nb_mode_blocks_stream(VALUE socket);

#endif
