/* gvl.c - whether a thread waits for the GVL. Uses ruby.h. Read after: gvl.h.
 *
 * A thread may wait for the GVL in any method, also at the end of one in C, where it checks for
 * interrupts before its frame is gone. From outside, that looks like a wait for another thread.
 */
#include "loop/gvl.h"
#include <ruby.h>
#include <ruby/thread.h>

static _Thread_local atomic_bool wanted;

const atomic_bool *nb_gvl_wanted(void)
{
    return &wanted;
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user)
{
    atomic_store_explicit(&wanted, event == RUBY_INTERNAL_THREAD_EVENT_READY, memory_order_relaxed);
}

void nb_gvl_init(void)
{
    rb_internal_thread_add_event_hook(
        on_event, RUBY_INTERNAL_THREAD_EVENT_READY | RUBY_INTERNAL_THREAD_EVENT_RESUMED, NULL);
}
#else
void nb_gvl_init(void) {}
#endif
