/* gvl.c - whether a thread waits for the GVL. Uses ruby.h. Read after: gvl.h.
 *
 * A thread may wait for the GVL in any method, also at the end of one in C, where it checks for
 * interrupts before its frame is gone. From outside, that looks like a wait for another thread.
 * Ruby tells on any thread, such as the one that wakes the other up. Before 3.3 it does not name
 * whom it tells of, but that is always the thread itself.
 */
#include "loop/gvl.h"
#include <ruby.h>
#include <ruby/thread.h>

static _Thread_local atomic_bool wanted;

#ifdef HAVE_RB_INTERNAL_THREAD_SPECIFIC_GET
static rb_internal_thread_specific_key_t key;
static bool has_key;

/* Ruby 3.3 hands out one key more than its table has places. */
static VALUE create_key(VALUE unused)
{
    key = rb_internal_thread_specific_key_create();
    return key < RB_INTERNAL_THREAD_SPECIFIC_KEY_MAX ? Qtrue : Qfalse;
}

/* Ruby has few, and none once there are several Ractors. */
static bool prepare(void)
{
    int tag = 0;
    has_key = RTEST(rb_protect(create_key, Qnil, &tag));
    if (tag)
        rb_set_errinfo(Qnil);
    return has_key;
}

static void note_place_of_flag(void)
{
    if (has_key)
        rb_internal_thread_specific_set(rb_thread_current(), key, &wanted);
}

static atomic_bool *flag_of(const rb_internal_thread_event_data_t *data)
{
    return rb_internal_thread_specific_get(data->thread, key);
}
#else
#define prepare() true
#define note_place_of_flag() ((void)0)
#define flag_of(data) (&wanted)
#endif

const atomic_bool *nb_gvl_wanted(void)
{
    note_place_of_flag();
    return &wanted;
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user)
{
    atomic_bool *flag = flag_of(data);
    if (flag)
        atomic_store_explicit(flag, event == RUBY_INTERNAL_THREAD_EVENT_READY,
                              memory_order_relaxed);
}

void nb_gvl_init(void)
{
    if (prepare())
        rb_internal_thread_add_event_hook(
            on_event, RUBY_INTERNAL_THREAD_EVENT_READY | RUBY_INTERNAL_THREAD_EVENT_RESUMED, NULL);
}
#else
void nb_gvl_init(void) {}
#endif
