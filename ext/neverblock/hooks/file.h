/* file.h - fds that may be in blocking mode: files, ttys, inherited pipes. Uses ruby.h. */
#ifndef NB_HOOKS_FILE_H
#define NB_HOOKS_FILE_H

#include "loop/wait.h"
#include <sys/types.h>

/* One attempt that never blocks the loop, whatever the mode of the fd. O_NONBLOCK stays as it is
 * (an inherited terminal's mode belongs to the shell, too). An offload thread reads cold file pages
 * while the fiber waits. Returns bytes or -errno; a read may also return NB_FILE_EMPTY: there is
 * nothing, and nb_file_patience says how long to wait for it. */
#define NB_FILE_EMPTY (-0x10000) /* no -errno */
ssize_t nb_file_read(nb_loop_t *loop, int fd, void *base, size_t size);
ssize_t nb_file_write(nb_loop_t *loop, int fd, const void *base, size_t size);

/* Tenths of a second after which a read of this terminal ends without bytes (VTIME, if VMIN is 0);
 * -1: it is not such a terminal. */
int nb_file_patience(int fd);

void Init_nb_hooks_file(VALUE cScheduler);

#endif
