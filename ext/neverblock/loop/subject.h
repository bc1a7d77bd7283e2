/* subject.h - what a fiber waits for, in a few words. Uses ruby.h. */
#ifndef NB_LOOP_SUBJECT_H
#define NB_LOOP_SUBJECT_H

#include <stddef.h>

struct nb_park;

/* For example "read 10.0.0.5:5432", "Thread::Mutex"; "" for a sleep. Fibers that wait for the same
 * have the same subject; all clients of a server have one. Runs no code of the program, allocates
 * nothing. */
void nb_subject_of(const struct nb_park *park, char *text, size_t size);

#endif
