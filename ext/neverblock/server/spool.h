/* spool.h - files for large request bodies: without a name, and freed beside the loop. Uses ruby.h.
 *
 * Read after: loop/loop.h.
 */
#ifndef NB_SERVER_SPOOL_H
#define NB_SERVER_SPOOL_H

#include <ruby.h> /* first */
#include "loop/loop.h"

/* A new file where Ruby's Tempfile would be. Returns its fd, or -1 and errno. */
int nb_spool_open(void);

/* Closes the fd, if it is none below 0. The kernel frees a file with its last fd, which takes 20 ms
 * for each 100 MB, so a large one is closed by an offload thread. */
void nb_spool_close(nb_loop_t *loop, int fd);

/* Another fd of such a file, for nb_spool_close once Ruby has closed its own; -1 if it has already.
 */
int nb_spool_keep(VALUE file);

#endif
