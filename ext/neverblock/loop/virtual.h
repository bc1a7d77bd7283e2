/* virtual.h - a clock for tests, which jumps to the next timer. Uses ruby.h.
 *
 * It stands still while fibers run: computing takes no time. When all wait,
 *
 *   and one of them for something from elsewhere        it goes as the real one, until one can run
 *   each for a timer, or for others of these fibers     it jumps
 *
 * From elsewhere is what an offload thread, another thread that is joined or a child does, and what
 * comes by a file whose other end is not in this process, or where other threads could write to it.
 *
 * Read after: loop.h, peer.h. Used by: loop.c.
 */
#ifndef NB_VIRTUAL_H
#define NB_VIRTUAL_H

#include "loop/loop.h"
#include "loop/peer.h"

/* From where something may come that the fibers wait for, timers aside: the farthest. */
nb_peer_t nb_virtual_awaits(const nb_loop_t *loop);

/* The loop has slept since (real clock), for what comes from elsewhere. */
void nb_virtual_pass(nb_loop_t *loop, uint64_t since_ns);

/* To the next timer, if that is later. */
void nb_virtual_jump(nb_loop_t *loop);

#endif
