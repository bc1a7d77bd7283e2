/* operation.c - blocking_operation_wait (Ruby >= 3.4): what Ruby is about to do without the GVL. Ruby.
 *
 * Ruby offers every open, stat, readdir and 128 pieces of one Zlib call. A thread for each would
 * cost more than most of them take; so only the calls that can take long leave the loop: those in
 * the list, and those that were seen to be slow here.
 */
#include "base/clock.h"
#include "hooks/hooks.h"
#include <ruby/debug.h>

#define SLOW_NS 2000000 /* a call that took this long ... */
#define STRIKES 3       /* ... so often: the machine may have been busy once ... */
#define REMEMBER_NS (10 * NB_NS_PER_S) /* ... within this time leaves the loop for as long */
#define REMEMBERED 16

static ID long_calls[3];

static struct {
    ID method;
    int strikes;
    uint64_t until_ns;
} slow_calls[REMEMBERED];

/* The C method that asks, such as :fsync; 0 when there is none. */
static ID caller_method(void)
{
    VALUE frames[2];
    int lines[2];
    /* Frame 0 is this hook, frame 1 the method whose work it is. */
    int count = rb_profile_frames(1, 1, frames, lines);
    if (count < 1)
        return 0;
    VALUE name = rb_profile_frame_method_name(frames[0]);
    return NIL_P(name) ? 0 : rb_intern_str(name);
}

static bool takes_long(ID method, uint64_t now)
{
    for (size_t i = 0; i < sizeof(long_calls) / sizeof(*long_calls); i++)
        if (long_calls[i] && long_calls[i] == method)
            return true;
    for (int i = 0; i < REMEMBERED; i++)
        if (slow_calls[i].method == method && slow_calls[i].strikes >= STRIKES &&
            slow_calls[i].until_ns > now)
            return true;
    return false;
}

static void remember(ID method, uint64_t now)
{
    int oldest = 0;
    for (int i = 0; i < REMEMBERED; i++) {
        if (slow_calls[i].method == method) {
            oldest = i;
            break;
        }
        if (slow_calls[i].until_ns < slow_calls[oldest].until_ns)
            oldest = i;
    }
    bool known = slow_calls[oldest].method == method && slow_calls[oldest].until_ns > now;
    slow_calls[oldest].strikes = known ? slow_calls[oldest].strikes + 1 : 1;
    slow_calls[oldest].method = method;
    slow_calls[oldest].until_ns = now + REMEMBER_NS;
}

static VALUE call_work(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, work))
{
    return rb_funcall(work, rb_intern("call"), 0);
}

/* In a blocking stretch: the work would ask this hook again otherwise. */
static VALUE call_here(VALUE work)
{
    static VALUE cFiber = 0;
    if (!cFiber)
        cFiber = rb_path2class("Fiber");
    return rb_block_call(cFiber, rb_intern("blocking"), 0, NULL, call_work, work);
}

/* @overload blocking_operation_wait(work)
 *   Runs work: here, or on an offload thread when it can take long (fsync, copy_stream, and
 *   whatever took over 2 ms three times lately).
 *   @param work [#call] must have ended when this returns
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_blocking_operation_wait(VALUE self, VALUE work)
{
    nb_loop_t *loop = nb_loop_get(self);
    ID method = caller_method();
    uint64_t begun = nb_clock_now();
    if (method && takes_long(method, begun)) {
        loop->counters.offloads++;
        return rb_funcall(self, rb_intern("offload_operation"), 1, work);
    }
    VALUE result = call_here(work);
    uint64_t ended = nb_clock_now();
    if (method && ended - begun > SLOW_NS)
        remember(method, ended);
    return result;
}

void Init_nb_hooks_operation(VALUE cScheduler)
{
    const char *names[] = {"fsync", "fdatasync", "copy_stream"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        long_calls[i] = rb_intern(names[i]);
#ifdef HAVE_RB_FIBER_SCHEDULER_BLOCKING_OPERATION_WAIT
    rb_define_method(cScheduler, "blocking_operation_wait",
                     rb_nb_scheduler_blocking_operation_wait, 1);
#else
    (void)rb_nb_scheduler_blocking_operation_wait;
#endif
}
