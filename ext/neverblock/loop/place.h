/* place.h - which of a thread's frames is the program's own. Uses ruby.h.
 * Used by: witness.c, blocking.c. */
#ifndef NB_LOOP_PLACE_H
#define NB_LOOP_PLACE_H

#include <ruby.h>
#include <stdbool.h>

#define NB_PLACE_FRAMES 256 /* of rb_profile_frames; deeper ones are not looked at */

/* Once, with the GVL. libraries, ours: Arrays of String, with which paths begin that are not the
 * program's; see NB::Dump. */
void nb_place_install(VALUE libraries, VALUE ours);

/* The innermost frame of the program, else of a library, else NULL. Allocates nothing, so that a
 * signal handler may ask. */
const VALUE *nb_place_find(const VALUE *frames, int count);

/* Whether a method of Ruby's own is written in Ruby there. */
bool nb_place_is_internal(VALUE path);

#endif
