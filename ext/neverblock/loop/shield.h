/* shield.h - sections of a fiber during which nothing is raised in it from outside. Uses ruby.h.
 * Read after: wait.h.
 *
 * Shields nest; the depth of a shield is the number of shields around it plus one. Whoever may
 * raise remembers the depth at which it began: a timeout or a group that began inside a shield is
 * not held back by it.
 */
#ifndef NB_SHIELD_H
#define NB_SHIELD_H

#include "loop/wait.h"

/* Waits for the end of a shield. strike: the section has ended in order, so this may raise at once;
 * otherwise it raises at the next wait. */
typedef struct nb_held {
    nb_list_t link;
    void (*release)(struct nb_held *held, bool strike);
} nb_held_t;

/* One section, on its fiber's C stack. */
typedef struct nb_shield {
    nb_loop_t *loop;
    VALUE fiber;
    VALUE kept; /* Array of [fiber, exception, depth], or 0 */
    nb_list_t held;
    struct nb_shield *outer;
    unsigned depth; /* 1 or more */
    bool open;      /* what was held has waited long enough: nothing is held any more */
    bool ended;     /* the section ended, and not by an exception or a throw */
    uint64_t limit_ns;
    nb_timer_t timer;
} nb_shield_t;

/* How many shields the fiber is inside. */
unsigned nb_shield_depth(const nb_loop_t *loop, VALUE fiber);

/* Whether a shield that the fiber has entered since depth holds back what is to be raised in it. */
bool nb_shielded(nb_loop_t *loop, VALUE fiber, unsigned depth);

/* If so, keeps it until the shield ends. The caller initializes held->link, and may take it out. */
bool nb_shield_hold(nb_loop_t *loop, VALUE fiber, unsigned depth, nb_held_t *held);

/* The same for an exception. An IOError about a closed IO is not held back: it does not end the
 * section from outside, but is how the section's own wait ends. */
bool nb_shield_keep(nb_loop_t *loop, VALUE fiber, VALUE exception, unsigned depth);

/* From now on something is held back: no longer than the shield may. */
void nb_shield_start_limit(nb_shield_t *shield);

/* Keeps it in this shield, whatever it is. */
void nb_shield_add(nb_shield_t *shield, VALUE fiber, VALUE exception, unsigned depth);

/* Removes the entry before the stack that it lies on ends. */
void nb_shields_mark(const nb_loop_t *loop);

/* Keeps the entries of fiber, the only one in a forked child. Returns 0 or -ENOMEM. */
int nb_shields_after_fork(nb_loop_t *loop, VALUE fiber);

#endif
