/* profile.c - where the time of a loop's thread and of its fibers goes. Uses ruby.h.
 *
 * Waits of fibers are measured. So is what the thread does besides running Ruby: it sleeps,
 * collects garbage, waits for the GVL or outside the loop (the last two where Ruby tells, as for
 * blocking.c). Only what it computes is sampled. Names are made when the profile is read.
 *
 * Read after: profile.h, sampler.h.
 */
#include "loop/profile.h"
#include "base/clock.h"
#include "loop/sampler.h"
#include "loop/subject.h"
#include "loop/wait.h"
#include <ruby/debug.h>
#include <ruby/thread.h>
#include <string.h>

/* Ruby's shorter pauses between threads are too frequent to read a stack each time. */
#define SHORT_NS 10000

/* In addition to the kinds of parks. */
enum { CPU = NB_PARK_SPAWN + 1, GARBAGE, GVL, OUTSIDE };

bool nb_profile_on;

static struct {
    VALUE thread; /* whose loop is profiled */
    uint64_t since_ns, took_ns, slept_ns, garbage_ns, gvl_ns, outside_ns;
    uint64_t cpu_ns, told_cpu_ns; /* its CPU time, and the part in which it did not compute */
    uint64_t asleep_ns, collects_ns, released_ns, wanted_ns; /* since when; 0: not now */
    uint64_t gvl_before_ns, released_cpu_ns, collects_cpu_ns;
    nb_list_t seen; /* waits that have not ended */
    VALUE collector;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
    rb_internal_thread_event_hook_t *hook;
#endif
} profile;

static void take(const VALUE *frames, const int *lines, int count, int kind, uint64_t took_ns)
{
    nb_stack_add(nb_stacks_find(frames, lines, count, kind, ""), took_ns);
}

static void take_notes(void *unused)
{
    nb_sampler_take(take);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static bool is_told(const nb_park_t *park)
{
    switch (park->kind) {
    case NB_PARK_HANDOFF:
    case NB_PARK_ROOT:
    case NB_PARK_START:
    case NB_PARK_IDLE:
        return false;
    default:
        return park->loop->thread == profile.thread;
    }
}

nb_seen_t *nb_profile_begins(const nb_park_t *park)
{
    static VALUE frames[NB_STACK_FRAMES];
    static int lines[NB_STACK_FRAMES];
    char subject[NB_STACK_SUBJECT];
    if (!is_told(park))
        return NULL;
    nb_seen_t *seen = malloc(sizeof(*seen));
    if (!seen)
        return NULL;
    nb_subject_of(park, subject, sizeof(subject));
    int count = rb_profile_frames(0, NB_STACK_FRAMES, frames, lines);
    *seen = (nb_seen_t){
        .stack = nb_stacks_find(frames, lines, count > 0 ? count : 0, park->kind, subject),
        .since_ns = nb_clock_now(),
    };
    if (park->state == NB_READY)
        seen->ready_ns = seen->since_ns;
    nb_list_append(&profile.seen, &seen->link);
    return seen;
}

static void count(const nb_seen_t *seen, uint64_t now)
{
    uint64_t ready_ns = seen->ready_ns ? seen->ready_ns : now;
    nb_stack_add(seen->stack, ready_ns - seen->since_ns);
    seen->stack->turn_ns += now - ready_ns;
}

/* A wait of an earlier profile is no longer in a list. */
void nb_profile_ends(nb_seen_t *seen)
{
    if (seen->stack)
        count(seen, nb_clock_now());
    nb_list_remove(&seen->link);
    free(seen);
}

/* ---- what the thread does -------------------------------------------------------------------- */

void nb_profile_sleeps(const nb_loop_t *loop)
{
    if (loop->thread != profile.thread)
        return;
    profile.asleep_ns = nb_clock_now();
    profile.gvl_before_ns = profile.gvl_ns;
}

void nb_profile_woke(const nb_loop_t *loop)
{
    if (loop->thread != profile.thread || !profile.asleep_ns)
        return;
    uint64_t gvl_ns = profile.gvl_ns - profile.gvl_before_ns;
    profile.slept_ns += nb_clock_now() - profile.asleep_ns - gvl_ns;
    profile.asleep_ns = 0;
}

static void note(int kind, uint64_t took_ns)
{
    if (took_ns >= SHORT_NS)
        nb_sampler_note(kind, took_ns);
}

/* Nothing may be allocated here. */
static void on_collector(VALUE point, void *unused)
{
    if (!nb_profile_on || !nb_sampler_is_here())
        return;
    uint64_t now = nb_clock_now();
    rb_event_flag_t event = rb_tracearg_event_flag(rb_tracearg_from_tracepoint(point));
    if (event == RUBY_INTERNAL_EVENT_GC_ENTER) {
        profile.collects_ns = now;
        profile.collects_cpu_ns = nb_sampler_cpu_ns();
    } else if (profile.collects_ns) {
        uint64_t took_ns = now - profile.collects_ns;
        uint64_t cpu_ns = nb_sampler_cpu_ns() - profile.collects_cpu_ns;
        profile.garbage_ns += took_ns;
        profile.told_cpu_ns += cpu_ns;
        profile.collects_ns = 0;
        nb_sampler_skip(cpu_ns);
        note(GARBAGE, took_ns);
    }
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
static void has_it_again(uint64_t now)
{
    uint64_t wanted_ns = profile.wanted_ns ? profile.wanted_ns : now;
    uint64_t gvl_ns = now - wanted_ns;
    profile.gvl_ns += gvl_ns;
    if (profile.asleep_ns) {
        nb_sampler_note_bare(GVL, gvl_ns); /* no fiber's time: any fiber may sleep for all */
        return;
    }
    note(GVL, gvl_ns);
    uint64_t took_ns = wanted_ns - profile.released_ns;
    uint64_t cpu_ns = nb_sampler_cpu_ns() - profile.released_cpu_ns; /* is sampled */
    took_ns -= cpu_ns < took_ns ? cpu_ns : took_ns;
    profile.outside_ns += took_ns;
    note(OUTSIDE, took_ns);
}

static void on_thread(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                      void *unused)
{
    if (!nb_profile_on || !nb_sampler_is_here())
        return;
    uint64_t now = nb_clock_now();
    if (event == RUBY_INTERNAL_THREAD_EVENT_SUSPENDED) {
        profile.released_ns = now;
        profile.wanted_ns = 0;
        profile.released_cpu_ns = nb_sampler_cpu_ns();
    } else if (event == RUBY_INTERNAL_THREAD_EVENT_READY) {
        profile.wanted_ns = now;
    } else if (profile.released_ns) {
        has_it_again(now);
        profile.released_ns = 0;
    }
}

static void watch_thread(void)
{
    profile.hook = rb_internal_thread_add_event_hook(on_thread,
                                                     RUBY_INTERNAL_THREAD_EVENT_SUSPENDED |
                                                         RUBY_INTERNAL_THREAD_EVENT_READY |
                                                         RUBY_INTERNAL_THREAD_EVENT_RESUMED,
                                                     NULL);
}

static void unwatch_thread(void)
{
    rb_internal_thread_remove_event_hook(profile.hook);
    profile.hook = NULL;
}
#else
#define watch_thread() ((void)0)
#define unwatch_thread() ((void)0)
#endif

/* ---- for Ruby -------------------------------------------------------------------------------- */

/* Waits that began during an earlier profile do not belong to this one. */
static void forget_seen(void)
{
    while (!nb_list_empty(&profile.seen)) {
        nb_seen_t *seen = nb_container_of(profile.seen.next, nb_seen_t, link);
        nb_list_remove(&seen->link);
        seen->stack = NULL;
    }
}

/* @!visibility private - starts to profile the loop of this thread. Returns false if a profile is
 * on already, or if the process handles SIGPROF. */
static VALUE rb_nb_profile_start(VALUE mod, VALUE interval_ns)
{
    if (nb_profile_on)
        return Qfalse;
    VALUE collector = profile.collector;
    forget_seen();
    nb_stacks_clear();
    profile = (typeof(profile)){.thread = rb_thread_current(),
                                .since_ns = nb_clock_now(),
                                .cpu_ns = nb_sampler_cpu_ns(),
                                .seen = {&profile.seen, &profile.seen},
                                .collector = collector};
    int error = nb_sampler_start(CPU, NUM2ULL(interval_ns), take_notes);
    if (error == -EBUSY)
        return Qfalse;
    if (error < 0)
        rb_syserr_fail(-error, "timer_create");
    nb_profile_on = true;
    watch_thread();
    rb_tracepoint_enable(profile.collector);
    return Qtrue;
}

/* The CPU time of another thread has no meaning here. A thread that has ended can stop nothing,
 * so any other may. */
static uint64_t cpu_at_the_end(void)
{
    if (rb_thread_current() == profile.thread)
        return nb_sampler_cpu_ns();
    if (RTEST(rb_funcall(profile.thread, rb_intern("alive?"), 0)))
        rb_raise(rb_path2class("NB::WrongThreadError"),
                 "NB::Profile.stop: the profile is of another thread: stop it there");
    return nb_sampler_noted_ns();
}

/* @!visibility private - to be called on the same thread, while it lives. */
static VALUE rb_nb_profile_stop(VALUE mod)
{
    if (!nb_profile_on)
        return Qfalse;
    uint64_t cpu_ns = cpu_at_the_end();
    nb_profile_on = false;
    nb_sampler_stop();
    unwatch_thread();
    rb_tracepoint_disable(profile.collector);
    uint64_t now = nb_clock_now();
    profile.took_ns = now - profile.since_ns;
    profile.cpu_ns = cpu_ns - profile.cpu_ns;
    for (nb_list_t *link = profile.seen.next; link != &profile.seen; link = link->next)
        count(nb_container_of(link, nb_seen_t, link), now);
    forget_seen();
    take_notes(NULL);
    return Qtrue;
}

void nb_profile_forget(void)
{
    nb_profile_on = false;
    forget_seen();
}

/* A frame's number in the list of names. A new frame is added. */
static VALUE number_of(VALUE frame, VALUE names, VALUE numbers)
{
    VALUE key = ULL2NUM((unsigned long long)frame), number = rb_hash_aref(numbers, key);
    if (!NIL_P(number))
        return number;
    number = LONG2FIX(RARRAY_LEN(names));
    rb_ary_push(names, rb_ary_new_from_args(3, rb_profile_frame_full_label(frame),
                                            rb_profile_frame_path(frame),
                                            rb_profile_frame_first_lineno(frame)));
    rb_hash_aset(numbers, key, number);
    return number;
}

static void read_stack(const nb_stack_t *stack, VALUE argument)
{
    VALUE list = rb_ary_entry(argument, 0), names = rb_ary_entry(argument, 1),
          numbers = rb_ary_entry(argument, 2), frames = rb_ary_new(), lines = rb_ary_new();
    for (int i = 0; i < stack->count; i++) {
        rb_ary_push(frames, number_of(stack->frames[i], names, numbers));
        rb_ary_push(lines, INT2FIX(stack->lines[i]));
    }
    rb_ary_push(list, rb_ary_new_from_args(
                          8, INT2FIX(stack->kind), rb_utf8_str_new_cstr(stack->subject),
                          ULL2NUM(stack->times), ULL2NUM(stack->total_ns),
                          ULL2NUM(stack->longest_ns), ULL2NUM(stack->turn_ns), frames, lines));
}

static void set(VALUE hash, const char *key, uint64_t value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(key)), ULL2NUM(value));
}

/* @!visibility private - what was noted: totals in ns, stacks, and the names of their frames. */
static VALUE rb_nb_profile_read(VALUE mod)
{
    VALUE stacks = rb_ary_new(), names = rb_ary_new(), hash = rb_hash_new();
    nb_stacks_each(read_stack, rb_ary_new_from_args(3, stacks, names, rb_hash_new()));
    set(hash, "took", profile.took_ns);
    set(hash, "cpu", profile.cpu_ns - profile.told_cpu_ns);
    set(hash, "slept", profile.slept_ns);
    set(hash, "garbage", profile.garbage_ns);
    set(hash, "gvl", profile.gvl_ns);
    set(hash, "outside", profile.outside_ns);
    rb_hash_aset(hash, ID2SYM(rb_intern("stacks")), stacks);
    rb_hash_aset(hash, ID2SYM(rb_intern("names")), names);
    return hash;
}

void Init_nb_profile(void)
{
    VALUE native = rb_path2class("NB::Native");
    Init_nb_stacks();
    Init_nb_sampler();
    nb_list_init(&profile.seen);
    rb_gc_register_address(&profile.collector);
    rb_gc_register_address(&profile.thread);
    profile.collector = rb_tracepoint_new(
        0, RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT, on_collector, NULL);
    rb_define_singleton_method(native, "profile_start", rb_nb_profile_start, 1);
    rb_define_singleton_method(native, "profile_stop", rb_nb_profile_stop, 0);
    rb_define_singleton_method(native, "profile_read", rb_nb_profile_read, 0);
}
