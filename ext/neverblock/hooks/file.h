/* file.h - fds that may be in blocking mode: files, ttys, inherited pipes. Uses ruby.h.
 * Used by: hooks/io.c. */
#ifndef NB_HOOKS_FILE_H
#define NB_HOOKS_FILE_H

#include "loop/wait.h"
#include <sys/types.h>

/* One attempt that never blocks the loop, whatever the mode of the fd; O_NONBLOCK is not touched
 * (an inherited terminal's mode belongs to the shell too). Cold file pages are read by an offload
 * thread while the fiber waits. Returns bytes or -errno; of a read also NB_FILE_EMPTY: nothing is
 * there, and nb_file_patience says how long to wait for it. */
#define NB_FILE_EMPTY (-0x10000) /* no -errno */
ssize_t nb_file_read(nb_loop_t *loop, int fd, void *base, size_t size);
ssize_t nb_file_write(nb_loop_t *loop, int fd, const void *base, size_t size);

/* Tenths of a second after which a read of this terminal ends without bytes (VTIME where VMIN is
 * 0); -1: it is no such terminal. */
int nb_file_patience(int fd);

void Init_nb_hooks_file(VALUE cScheduler);

#endif
