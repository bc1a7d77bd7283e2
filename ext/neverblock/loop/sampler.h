/* sampler.h - notes where a thread is, in signal handlers and Ruby's own hooks. Uses ruby.h.
 *
 * Nothing may be allocated there: notes lie in a ring until their owner takes them out.
 * Read after: stacks.h.
 */
#ifndef NB_LOOP_SAMPLER_H
#define NB_LOOP_SAMPLER_H

#include <ruby.h>
#include <stdint.h>

/* Notes what the calling thread did for took_ns. It must be the sampled thread. */
void nb_sampler_note(int kind, uint64_t took_ns);

/* The same, without the stack. */
void nb_sampler_note_bare(int kind, uint64_t took_ns);

/* The CPU time of the calling thread so far. */
uint64_t nb_sampler_cpu_ns(void);

/* That of the sampled thread when it was last noted: all that is known once the thread is gone. */
uint64_t nb_sampler_noted_ns(void);

/* Samples the calling thread: notes its CPU time as kind, once per interval_ns of it. Ruby calls
 * job soon after something was noted. Returns 0 or -errno. */
int nb_sampler_start(int kind, uint64_t interval_ns, void (*job)(void *));
void nb_sampler_stop(void);

/* This part of the CPU time is not noted as kind, because a note of another kind covers it. */
void nb_sampler_skip(uint64_t cpu_ns);

/* Whether the calling thread is sampled. */
bool nb_sampler_is_here(void);

/* Calls take for each note, the oldest first, and at last for what found no room. With the GVL. */
typedef void (*nb_sampler_take_t)(const VALUE *frames, const int *lines, int count, int kind,
                                  uint64_t took_ns);
void nb_sampler_take(nb_sampler_take_t take);

void Init_nb_sampler(void);

#endif
