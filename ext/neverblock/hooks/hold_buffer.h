/* hold_buffer.h - an IO::Buffer stays where it is while a hook moves bytes. Uses ruby.h.
 * Used by: hooks/io.c, file.c. */
#ifndef NB_HOOKS_HOLD_BUFFER_H
#define NB_HOOKS_HOLD_BUFFER_H

#include <ruby.h>

/* Returns body(argument), during which others may run: to them the buffer is locked, as Ruby itself
 * has it while a thread reads into it, until the last of the fibers that share it has ended. One
 * that somebody else has locked stays so. */
VALUE nb_hold_buffer(VALUE buffer, VALUE (*body)(VALUE), VALUE argument);

#endif
