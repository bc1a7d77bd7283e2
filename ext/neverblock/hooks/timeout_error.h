/* timeout_error.h - what a timeout raises, and whether one has. Uses ruby.h. Read after: timeout.h.
 */
#ifndef NB_HOOKS_TIMEOUT_ERROR_H
#define NB_HOOKS_TIMEOUT_ERROR_H

#include "hooks/timeout.h"

extern VALUE rb_cNBTimeoutExpired, rb_cNBTimeoutError;

/* What to raise in the block. May run Ruby code: the application's own class. */
VALUE nb_timeout_exception(const nb_timeout_t *timeout);

/* Whether Expired is Timeout's own exception, and the cause of its Timeout::Error, which otherwise
 * has none. */
bool nb_expired_is_shown(void);

/* Before it is raised: what would else be $! of the code that it strikes. */
void nb_set_cause(VALUE exception, VALUE cause);

void nb_timeout_error_init(VALUE cScheduler);

#endif
