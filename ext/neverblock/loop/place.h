/* place.h - which of a thread's frames is the program's own. Uses ruby.h. */
#ifndef NB_LOOP_PLACE_H
#define NB_LOOP_PLACE_H

#include <ruby.h>
#include <stdbool.h>

#define NB_PLACE_FRAMES 256 /* of rb_profile_frames; deeper ones are not looked at */

/* Called once, with the GVL. libraries, ours: Arrays of Strings, the starts of paths that are not
 * the program's; see NB::Dump. */
void nb_place_install(VALUE libraries, VALUE ours);

/* The innermost frame of the program, or else of a library, or else NULL. Allocates nothing, so a
 * signal handler may call it. */
const VALUE *nb_place_find(const VALUE *frames, int count);

/* Whether the frame is a method of Ruby's own that is written in Ruby. */
bool nb_place_is_internal(VALUE path);

#endif
