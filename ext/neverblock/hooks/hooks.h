/* hooks.h - one Init per hook family, called by init.c. Uses ruby.h. */
#ifndef NB_HOOKS_H
#define NB_HOOKS_H

#include "loop/wait.h"

void Init_nb_hooks_io(VALUE cScheduler);
void Init_nb_hooks_io_wait(VALUE cScheduler);
void Init_nb_hooks_select(VALUE cScheduler);
void Init_nb_hooks_time(VALUE cScheduler);
void Init_nb_hooks_timeout(VALUE cScheduler);
void Init_nb_hooks_section(VALUE cScheduler);
void Init_nb_hooks_block(VALUE cScheduler);
void Init_nb_hooks_early_unblock(void);
void Init_nb_hooks_mutex(void);
void Init_nb_hooks_held_mutexes(void);
void Init_nb_hooks_fiber_blocking(void);
void Init_nb_hooks_matches(VALUE cScheduler);
void Init_nb_hooks_process(VALUE cScheduler);
void Init_nb_hooks_resolve(VALUE cScheduler);
void Init_nb_hooks_fiber(VALUE cScheduler);
void Init_nb_hooks_idle(VALUE cScheduler);
void Init_nb_hooks_fiber_interrupt(VALUE cScheduler);
void Init_nb_hooks_transfer(VALUE cScheduler);
void Init_nb_hooks_operation(VALUE cScheduler);
void Init_nb_hooks_job(void);
void Init_nb_hooks_counted(void);
void Init_nb_hooks_c_methods(void);
void Init_nb_hooks_mode(void);
void Init_nb_hooks_joined(void);
void Init_nb_hooks_report(VALUE cScheduler);
void Init_nb_hooks_autoload(void);

/* Waits until fd is ready for an event of mask, or until deadline_ns. Returns the ready mask; 0
 * after the deadline. Raises IOError if the fd is closed meanwhile. */
int nb_wait_fd(nb_loop_t *loop, int fd, int mask, uint64_t deadline_ns);

/* Raises TypeError or ArgumentError (negative) as Kernel#sleep does. */
void nb_check_interval(VALUE duration);

/* A new non-blocking fiber that runs body(argument). Rubies differ; see hooks/fiber.c. */
VALUE nb_fiber_new(rb_block_call_func_t body, VALUE argument);

/* Lets the current fiber have $~ and $_ of its own in the block, as if Ruby had begun it with that.
 */
void nb_own_matches(VALUE block);

/* Yields to the block of the method that runs, for functions that take a body. */
static inline VALUE nb_yield_block(VALUE unused)
{
    return rb_yield_values(0);
}

/* Takes a scheduled fiber out of (or back into) the fibers that keep the loop running. May be
 * nested. When the loop cancels the fiber, it counts again: what its `ensure` waits for comes to
 * its end. The block of NB.run always counts, because the loop runs for it. */
void nb_idle_begin(nb_loop_t *loop, VALUE fiber);
void nb_idle_end(nb_loop_t *loop, VALUE fiber);

/* From now on it counts, as if it had never begun. */
void nb_idle_over(nb_loop_t *loop, VALUE fiber);

/* A fiber of the loop that soon runs body(argument), or failed(argument) if the system has no room
 * for its stack. For code that may not switch, such as on_ready. Its waits keep the loop running,
 * except between nb_idle_begin and nb_idle_end. */
void nb_spawn(nb_loop_t *loop, VALUE (*body)(VALUE), void (*failed)(VALUE), VALUE argument);
/* The frame of the method that called the running hook; nil: there is none. */
VALUE nb_caller_frame(void);
/* Whether Ruby code called the running hook, such as a method that wraps it. Ruby code must never
 * get undef: the interpreter takes it for a call that is not over, and the process ends with
 * [BUG]. */
bool nb_called_by_ruby(void);

/* Keeps a method of klass's own under another name before it is replaced: NB::Repairs.keep. */
void nb_keep_original(VALUE klass, ID original, ID name);

/* Sets the Symbol key of hash to a count: for the Hashes that stats returns. */
void nb_set_count(VALUE hash, const char *key, uint64_t value);

#endif
