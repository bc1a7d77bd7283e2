/* hold_buffer.h - keeps an IO::Buffer in place while a hook moves bytes. Uses ruby.h. */
#ifndef NB_HOOKS_HOLD_BUFFER_H
#define NB_HOOKS_HOLD_BUFFER_H

#include <ruby.h>

/* Returns body(argument), during which others may run. For them the buffer is locked, as Ruby locks
 * it while a thread reads into it, until the last of the fibers that share it has ended. A buffer
 * that somebody else has locked stays locked. */
VALUE nb_hold_buffer(VALUE buffer, VALUE (*body)(VALUE), VALUE argument);

/* Raises what IO::Buffer raises itself if offset and length reach beyond the buffer's size. */
void nb_check_span(size_t size, size_t offset, size_t length);

#endif
