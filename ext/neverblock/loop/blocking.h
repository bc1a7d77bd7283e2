/* blocking.h - calls during which a loop's thread waited without asking the loop. Uses ruby.h.
 * Read after: loop.h.
 */
#ifndef NB_LOOP_BLOCKING_H
#define NB_LOOP_BLOCKING_H

void Init_nb_blocking(void);

#endif
