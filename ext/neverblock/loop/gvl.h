/* gvl.h - whether a thread waits for the GVL. Uses ruby.h. Read after: base/clock.h. */
#ifndef NB_LOOP_GVL_H
#define NB_LOOP_GVL_H

#include <stdatomic.h>

/* Whether the calling thread waits for the GVL, for others to read as long as the thread lives.
 * Always false where Ruby does not tell (before 3.2). With the GVL. */
const atomic_bool *nb_gvl_wanted(void);

/* From now on Ruby tells. With the GVL. */
void nb_gvl_init(void);

#endif
