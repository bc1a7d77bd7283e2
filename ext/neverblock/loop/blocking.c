/* blocking.c - calls during which a loop's thread waited without asking the loop. Uses ruby.h.
 *
 * Ruby (3.2 and later) reports when a thread gives the GVL away, wants it back, and has it again.
 * If a loop's thread does anything other than the loop's own sleep between the first two, it is in
 * a call that waits or computes in C while no fiber runs. Its frames are read when the thread has
 * the GVL again and is still in that call; names are computed only when the list is asked for.
 *
 * Read after: blocking.h, place.h.
 */
#include "loop/blocking.h"
#include "base/clock.h"
#include "loop/loop.h"
#include "loop/place.h"
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK

#define PLACES 1024 /* calls at further places are counted as one, without a place */

typedef struct {
    VALUE frame, callee; /* the line's, and the method of Ruby's that was called there, or 0 */
    int line;
    uint64_t count, total_ns, longest_ns;
} nb_call_t;

static struct {
    rb_internal_thread_event_hook_t *hook; /* NULL: off */
    uint64_t least_ns;
    size_t used;
    nb_call_t calls[PLACES + 1]; /* the last one: of further places */
} blocking;

/* Of this thread, while it does not hold the GVL. */
static _Thread_local uint64_t released_ns, wanted_ns;

static void mark(void *unused)
{
    for (size_t i = 0; i < blocking.used; i++) {
        rb_gc_mark(blocking.calls[i].frame);
        rb_gc_mark(blocking.calls[i].callee);
    }
}

static nb_call_t *call_at(VALUE frame, int line, VALUE callee)
{
    for (size_t i = 0; i < blocking.used; i++) {
        nb_call_t *call = &blocking.calls[i];
        if (call->frame == frame && call->line == line && call->callee == callee)
            return call;
    }
    if (blocking.used == PLACES)
        return &blocking.calls[PLACES];
    nb_call_t *call = &blocking.calls[blocking.used++];
    *call = (nb_call_t){.frame = frame, .line = line, .callee = callee};
    return call;
}

/* Allocates nothing, because Ruby calls it while it switches threads. */
static void note(uint64_t took_ns)
{
    static VALUE frames[NB_PLACE_FRAMES];
    static int lines[NB_PLACE_FRAMES];
    int count = rb_profile_frames(0, NB_PLACE_FRAMES, frames, lines);
    const VALUE *place = count > 0 ? nb_place_find(frames, count) : NULL;
    if (!place)
        return;
    VALUE path = rb_profile_frame_path(frames[0]);
    bool own = NIL_P(path) || nb_place_is_internal(path); /* a method of Ruby's, in C or Ruby */
    nb_call_t *call = call_at(*place, lines[place - frames], own ? frames[0] : 0);
    call->count++;
    call->total_ns += took_ns;
    if (call->longest_ns < took_ns)
        call->longest_ns = took_ns;
}

/* Without the time in which it then waited for the GVL, if that is known. */
static void has_it_again(void)
{
    uint64_t until_ns = wanted_ns ? wanted_ns : nb_clock_now();
    if (until_ns - released_ns < blocking.least_ns)
        return;
    VALUE scheduler = rb_fiber_scheduler_get();
    if (!nb_is_loop(scheduler))
        return;
    nb_loop_t *loop = nb_loop_any(scheduler);
    if (!atomic_load_explicit(&loop->asleep, memory_order_relaxed))
        note(until_ns - released_ns);
}

static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user)
{
    if (event == RUBY_INTERNAL_THREAD_EVENT_SUSPENDED) {
        released_ns = nb_clock_now();
        wanted_ns = 0;
    } else if (event == RUBY_INTERNAL_THREAD_EVENT_READY) {
        if (released_ns && !wanted_ns)
            wanted_ns = nb_clock_now();
    } else if (released_ns) {
        has_it_again();
        released_ns = 0;
    }
}

/* @!visibility private - least_ns: shorter calls are not recorded; nil: stops recording. The other
 *   arguments are for nb_place_install. */
static VALUE rb_nb_blocking_watch(VALUE mod, VALUE least_ns, VALUE libraries, VALUE ours)
{
    nb_place_install(libraries, ours);
    if (blocking.hook) {
        rb_internal_thread_remove_event_hook(blocking.hook);
        blocking.hook = NULL;
    }
    if (NIL_P(least_ns))
        return Qnil;
    blocking.least_ns = NUM2ULL(least_ns);
    blocking.hook = rb_internal_thread_add_event_hook(on_event,
                                                      RUBY_INTERNAL_THREAD_EVENT_SUSPENDED |
                                                          RUBY_INTERNAL_THREAD_EVENT_READY |
                                                          RUBY_INTERNAL_THREAD_EVENT_RESUMED,
                                                      NULL);
    return Qnil;
}

/* @!visibility private - forgets what was recorded. */
static VALUE rb_nb_blocking_clear(VALUE mod)
{
    blocking.used = 0;
    blocking.calls[PLACES] = (nb_call_t){0};
    return Qnil;
}

static VALUE describe(const nb_call_t *call)
{
    VALUE path = call->frame ? rb_profile_frame_path(call->frame) : Qnil,
          label = call->frame ? rb_profile_frame_label(call->frame) : Qnil,
          method = call->callee ? rb_profile_frame_full_label(call->callee) : Qnil;
    return rb_ary_new_from_args(7, path, INT2NUM(call->line), label, method, ULL2NUM(call->count),
                                ULL2NUM(call->total_ns), ULL2NUM(call->longest_ns));
}

/* @!visibility private - [path, line, label, method, count, total ns, longest ns] of each place. */
static VALUE rb_nb_blocking_calls(VALUE mod)
{
    VALUE list = rb_ary_new();
    for (size_t i = 0; i < blocking.used; i++) {
        nb_call_t call = blocking.calls[i]; /* naming it may let another thread run */
        rb_ary_push(list, describe(&call));
        RB_GC_GUARD(call.frame);
        RB_GC_GUARD(call.callee);
    }
    if (blocking.calls[PLACES].count)
        rb_ary_push(list, describe(&blocking.calls[PLACES]));
    return list;
}

static const rb_data_type_t marker_type = {
    .wrap_struct_name = "NB::BlockingCalls",
    .function = {.dmark = mark},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

void Init_nb_blocking(void)
{
    VALUE native = rb_path2class("NB::Native");
    rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &marker_type, &blocking));
    rb_define_singleton_method(native, "watch_blocking", rb_nb_blocking_watch, 3);
    rb_define_singleton_method(native, "clear_blocking", rb_nb_blocking_clear, 0);
    rb_define_singleton_method(native, "blocking_calls", rb_nb_blocking_calls, 0);
}
#else
void Init_nb_blocking(void)
{
    /* Ruby 3.1 does not tell when a thread gives the GVL away. */
}
#endif
