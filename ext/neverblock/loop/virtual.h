/* virtual.h - a clock for tests, which jumps to the next timer. Uses ruby.h.
 *
 * It stands still while fibers run: computing takes no time. When all wait,
 *
 *   and one of them for something from outside          it follows real time until one can run
 *   each for a timer, or for others of these fibers     it jumps
 *
 * From outside comes what an offload thread, another joined thread or a child does, and I/O whose
 * other end is not in this process, or that other threads could write to; and while another thread
 * runs, what a fiber waits for at a lock or a queue.
 *
 * Read after: loop.h, peer.h.
 */
#ifndef NB_VIRTUAL_H
#define NB_VIRTUAL_H

#include "loop/loop.h"
#include "loop/peer.h"

/* The farthest place from which the fibers may wait for something, apart from timers. */
nb_peer_t nb_virtual_awaits(const nb_loop_t *loop);

/* The loop has slept since that time (real clock) for something from outside. */
void nb_virtual_pass(nb_loop_t *loop, uint64_t since_ns);

/* Moves to the next timer, if that is later. */
void nb_virtual_jump(nb_loop_t *loop);

#endif
