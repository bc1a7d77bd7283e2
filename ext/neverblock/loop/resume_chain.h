/* resume_chain.h - fibers that have resumed each other, and the last of them. Uses ruby.h.
 *
 * A scheduled fiber resumes another, such as an Enumerator's, and that one a third, which waits.
 * What is meant for any of them has to be raised in the last one: it is the one that waits, and
 * from it Ruby hands the exception to the others. Ruby tells that a fiber has resumed another, but
 * not which.
 */
#ifndef NB_RESUME_CHAIN_H
#define NB_RESUME_CHAIN_H

#include <ruby.h>
#include <stdbool.h>

/* Finds out where Ruby keeps it. Without that, no fiber seems to have resumed another. */
void nb_resume_chain_init(void);

/* The last fiber of the chain that begins with this one, to be compared by nb_resume_chain_is; NULL
 * if the fiber has resumed nobody. */
const void *nb_resume_chain_end(VALUE fiber);

static inline bool nb_resume_chain_is(const void *end, VALUE fiber)
{
    return end && RTYPEDDATA_DATA(fiber) == end;
}

/* Whether the chain that begins with fiber reaches other. */
bool nb_resume_chain_reaches(VALUE fiber, VALUE other);

/* Whether the chain that begins with fiber reaches last, and one for which `is` is true (given its
 * struct) comes before it. */
typedef struct {
    bool (*is)(const void *fiber, VALUE argument);
    VALUE argument;
} nb_resume_chain_between_t;
bool nb_resume_chain_leads(VALUE fiber, nb_resume_chain_between_t between, VALUE last);

/* Before the current fiber leaves for another one. A fiber that Fiber#kill ends would be killed
 * anew whenever it continues (Ruby 3.3 and later), so a wait in its `ensure` would end the
 * `ensure`. */
void nb_resume_chain_let_end(VALUE fiber);

#endif
