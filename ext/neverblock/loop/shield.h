/* shield.h - sections of a fiber that what others raise in it waits for. Ruby. Read after: wait.h.
 *
 * Shields nest, and each is as deep as there are others around it. Whoever may raise says how deep
 * it was when it began: a timeout or a group that began inside of a shield is not held back by it.
 */
#ifndef NB_SHIELD_H
#define NB_SHIELD_H

#include "loop/wait.h"

/* What waits for the end of a shield. strike: the section has ended in order, so that it may raise
 * at once; otherwise it comes at the next wait. */
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
    bool open;      /* what came has waited long enough: nothing waits any more */
    bool ended;     /* the section has, and not by an exception or a throw */
    uint64_t limit_ns;
    nb_timer_t timer;
} nb_shield_t;

/* How many shields the fiber is inside of. */
unsigned nb_shield_depth(const nb_loop_t *loop, VALUE fiber);

/* Whether a shield that the fiber has entered since depth holds back what is to be raised in it. */
bool nb_shielded(nb_loop_t *loop, VALUE fiber, unsigned depth);

/* If so, keeps it until that ends. held->link is initialised by the caller, who may take it out. */
bool nb_shield_hold(nb_loop_t *loop, VALUE fiber, unsigned depth, nb_held_t *held);

/* The same for an exception. That an IO was closed is no wish to end anything: it is what the
 * section's own wait ends with. */
bool nb_shield_keep(nb_loop_t *loop, VALUE fiber, VALUE exception, unsigned depth);

/* So that no entry outlives the stack that it lies on. */
void nb_shields_mark(const nb_loop_t *loop);

/* Keeps those of fiber, the only one in a forked child. Returns 0 or -ENOMEM. */
int nb_shields_after_fork(nb_loop_t *loop, VALUE fiber);

#endif
