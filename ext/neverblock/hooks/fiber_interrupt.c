/* fiber_interrupt.c - the hook that raises in another fiber. Uses ruby.h. Read after: wait.h.
 *
 * From Ruby 4.1 on, IO#close passes one I/O operation instead of the fiber that waits in it: alive?
 * says whether the operation still runs, and raise raises in its fiber. Nothing says which fiber
 * that is, so a fiber of ours calls them at the loop's next turn. Source: ruby/ruby pull request
 * 18793.
 */
#include "hooks/hooks.h"
#include "loop/resume_chain.h"
#include "loop/shield.h"

static ID id_alive, id_raise;

typedef struct {
    nb_timer_t timer;
    nb_loop_t *loop;
    VALUE proxy, exception;
} nb_io_operation_t;

static VALUE raise_in_fiber(VALUE argument)
{
    const nb_io_operation_t *operation = (nb_io_operation_t *)argument;
    if (RTEST(rb_funcall(operation->proxy, id_alive, 0)))
        rb_funcall(operation->proxy, id_raise, 1, operation->exception);
    return Qnil;
}

static VALUE hand_over(VALUE argument)
{
    return nb_hand_over(((nb_io_operation_t *)argument)->loop, raise_in_fiber, argument);
}

static void release(VALUE argument)
{
    nb_io_operation_t *operation = (nb_io_operation_t *)argument;
    rb_gc_unregister_address(&operation->proxy);
    rb_gc_unregister_address(&operation->exception);
    xfree(operation);
}

static VALUE release_value(VALUE argument)
{
    release(argument);
    return Qnil;
}

static VALUE deliver(VALUE argument)
{
    return rb_ensure(hand_over, argument, release_value, argument);
}

static void on_turn(nb_timer_t *timer)
{
    nb_io_operation_t *operation = nb_container_of(timer, nb_io_operation_t, timer);
    nb_spawn(operation->loop, deliver, release, (VALUE)operation);
}

static bool is_io_operation(VALUE object)
{
    return rb_respond_to(object, id_alive) && rb_respond_to(object, id_raise);
}

/* Any thread. */
static void interrupt_io_operation(nb_loop_t *loop, VALUE object, VALUE exception)
{
    nb_io_operation_t *operation = ALLOC(nb_io_operation_t);
    *operation = (nb_io_operation_t){.timer = {.index = NB_TIMER_IDLE, .on_due = on_turn},
                                     .loop = loop,
                                     .proxy = object,
                                     .exception = exception};
    if (nb_timers_add(&loop->timers, &operation->timer) < 0) { /* due at once */
        xfree(operation);
        rb_memerror();
    }
    rb_gc_register_address(&operation->proxy);
    rb_gc_register_address(&operation->exception);
    nb_loop_wakeup(loop);
}

/* @overload fiber_interrupt(fiber, exception)
 *   Raises exception in fiber when it next runs: at its present wait, or at its next one. The
 *   caller continues, even if it interrupts itself; nothing runs at once.
 *   @param fiber [Fiber] of this scheduler, or an operation of one
 *   @param exception [Exception]
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_fiber_interrupt(VALUE self, VALUE fiber, VALUE exception)
{
    nb_loop_t *loop = nb_loop_any(self);
    bool is_fiber = RTEST(rb_obj_is_fiber(fiber));
    if (!is_fiber && !is_io_operation(fiber))
        rb_raise(rb_eTypeError, "fiber_interrupt: expected a Fiber, got: %" PRIsVALUE,
                 rb_inspect(fiber));
    if (!RTEST(rb_obj_is_kind_of(exception, rb_eException)))
        rb_raise(rb_eTypeError, "fiber_interrupt: expected an Exception, got: %" PRIsVALUE,
                 rb_inspect(exception));
    if (loop->closed)
        return Qnil;
    if (is_fiber)
        nb_interrupt(loop, fiber, exception);
    else
        interrupt_io_operation(loop, fiber, exception);
    return Qnil;
}

/* Who waits in this park: the loop's fiber, if that one has resumed the park's, such as an
 * Enumerator's. Its shields are around that wait, and it goes on when the other has ended. */
static VALUE who_waits(const nb_park_t *park)
{
    return nb_resume_chain_reaches(park->owner, park->fiber) ? park->owner : park->fiber;
}

/* @!visibility private - raises in every fiber that waits, except the caller, blocking ones, and
 *   those that `told` (a WeakMap) has as keys; adds them to it. */
static VALUE rb_nb_scheduler_interrupt_all(VALUE self, VALUE klass, VALUE message, VALUE told)
{
    nb_loop_t *loop = nb_loop_get(self);
    VALUE fibers = rb_ary_new(), owners = rb_ary_new(), current = rb_fiber_current();
    loop->ends = true;
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (!park)
            continue;
        rb_ary_push(fibers, who_waits(park));
        rb_ary_push(owners, park->owner);
    }
    for (long i = 0; i < RARRAY_LEN(fibers); i++) {
        VALUE fiber = RARRAY_AREF(fibers, i);
        if (fiber == current || RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0)) ||
            RTEST(rb_funcall(told, rb_intern("key?"), 1, fiber)))
            continue;
        rb_funcall(told, rb_intern("[]="), 2, fiber, fiber);
        nb_idle_over(loop, RARRAY_AREF(owners, i));
        nb_interrupt(loop, fiber, rb_funcall(klass, rb_intern("new"), 1, message));
    }
    return Qnil;
}

/* @!visibility private - the fibers that `told` has as keys and that wait again, neither in an
 *   `ensure` or a `rescue` nor in a shield: they have rescued what was to end them, and go on. */
static VALUE rb_nb_scheduler_going_on(VALUE self, VALUE told)
{
    nb_loop_t *loop = nb_loop_get(self);
    VALUE fibers = rb_ary_new();
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (!park || park->kind >= NB_PARK_YIELD || park->state != NB_PARKED || park->unwinds)
            continue;
        VALUE fiber = who_waits(park);
        if (NIL_P(rb_hash_aref(loop->deferred, fiber)) && !nb_shielded(loop, fiber, 0))
            rb_ary_push(fibers, fiber);
    }
    VALUE found = rb_ary_new();
    for (long i = 0; i < RARRAY_LEN(fibers); i++)
        if (RTEST(rb_funcall(told, rb_intern("key?"), 1, RARRAY_AREF(fibers, i))))
            rb_ary_push(found, RARRAY_AREF(fibers, i));
    return found;
}

void Init_nb_hooks_fiber_interrupt(VALUE cScheduler)
{
    id_alive = rb_intern("alive?");
    id_raise = rb_intern("raise");
    rb_define_method(cScheduler, "fiber_interrupt", rb_nb_scheduler_fiber_interrupt, 2);
    rb_define_private_method(cScheduler, "interrupt_all", rb_nb_scheduler_interrupt_all, 3);
    rb_define_private_method(cScheduler, "going_on", rb_nb_scheduler_going_on, 1);
}
