/* stacks.h - call stacks, and what happened at each of them, how often and how long. Uses ruby.h.
 */
#ifndef NB_LOOP_STACKS_H
#define NB_LOOP_STACKS_H

#include <ruby.h>
#include <stdint.h>

#define NB_STACK_FRAMES 400 /* that are kept of a stack: the innermost */
#define NB_STACK_SUBJECT 80

typedef struct {
    uint64_t hash;
    uint64_t times, total_ns, longest_ns;
    uint64_t turn_ns; /* from the end of a wait until the fiber ran */
    int kind, count;
    char subject[NB_STACK_SUBJECT];
    VALUE *frames; /* as rb_profile_frames returns them, the innermost first */
    int *lines;
} nb_stack_t;

/* The entry of this stack, kind and subject. If there are too many, or there is no memory, the one
 * entry for all the rest. With the GVL; may allocate. */
nb_stack_t *nb_stacks_find(const VALUE *frames, const int *lines, int count, int kind,
                           const char *subject);

/* Adds one event that took took_ns. */
void nb_stack_add(nb_stack_t *stack, uint64_t took_ns);

/* Frees all entries. */
void nb_stacks_clear(void);

/* Calls call for each entry. */
void nb_stacks_each(void (*call)(const nb_stack_t *stack, VALUE argument), VALUE argument);

void Init_nb_stacks(void);

#endif
