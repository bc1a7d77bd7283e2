/* fiber.c - fiber, yield, run: the life of the loop's fibers. Uses ruby.h.
 * Read after: wait.h. */
#include "hooks/hooks.h"
#include "hooks/held_mutexes.h"
#include "loop/last_status.h"
#include <ruby/fiber/scheduler.h>

static ID id_report, id_new;
static VALUE cFiberError;
static size_t ended;      /* fibers of all loops, since garbage was collected for want of stacks */
static VALUE nonblocking; /* {blocking: false} */

/* On Ruby 3.1, rb_fiber_new makes a blocking fiber; there it uses Fiber.new. */
VALUE nb_fiber_new(rb_block_call_func_t body, VALUE argument)
{
#ifdef HAVE_RB_FIBER_NEW_STORAGE
    return rb_fiber_new(body, argument);
#else
    static VALUE cFiber = 0;
    if (!cFiber)
        cFiber = rb_path2class("Fiber");
    return rb_block_call_kw(cFiber, id_new, 1, &nonblocking, body, argument, RB_PASS_KEYWORDS);
#endif
}

/* exit, signals and Thread#kill end the program or the thread: when they end this fiber, Ruby
 * carries them to the thread's first fiber. Everything else ends this fiber only. */
static bool passes_on(VALUE error)
{
    if (SPECIAL_CONST_P(error) || RB_BUILTIN_TYPE(error) != T_OBJECT)
        return true; /* Thread#kill: no exception, a number */
    return !RTEST(rb_obj_is_kind_of(error, rb_eException)) ||
           RTEST(rb_obj_is_kind_of(error, rb_eSystemExit)) ||
           RTEST(rb_obj_is_kind_of(error, rb_eSignal)) ||
           RTEST(rb_obj_is_kind_of(error, rb_eNoMemError));
}

static VALUE run_others(VALUE self)
{
    return rb_funcall(self, rb_intern("run"), 0);
}

static VALUE cancel_others(VALUE self)
{
    return rb_funcall(self, rb_intern("cancel_all"), 0);
}

/* In a child that it has forked, a fiber is the first one. The others now run to their end, or are
 * cancelled after an exception: Ruby closes the loop when this fiber is dead, and then nobody can
 * return to it. Returns the state in which the fiber ends. */
static int end_others(nb_loop_t *loop, int state)
{
    int tag = 0;
    if (!state)
        rb_protect(run_others, loop->self, &state);
    VALUE error = state ? rb_errinfo() : Qnil;
    rb_protect(cancel_others, loop->self, &tag);
    if (tag)
        return tag;
    if (state && nb_is_exception(error)) /* Ruby takes nothing else back */
        rb_set_errinfo(error);
    RB_GC_GUARD(error);
    return state;
}

typedef struct {
    VALUE self, error;
} nb_end_t;

static VALUE report(VALUE argument)
{
    const nb_end_t *end = (nb_end_t *)argument;
    return rb_funcall(end->self, id_report, 1, end->error);
}

/* Reports the error that ended the fiber, and may wait for that: the loop runs on meanwhile, since
 * the fiber is still one of its own. Returns the state in which the fiber ends. */
static int end_by_error(nb_loop_t *loop)
{
    int tag = 0;
    nb_end_t end = {loop->self, rb_errinfo()};
    rb_set_errinfo(Qnil);
    if (!loop->closed)
        nb_forget_interrupts(loop); /* they were for its work */
    rb_protect(report, (VALUE)&end, &tag);
    if (tag && passes_on(rb_errinfo()))
        return tag;
    rb_set_errinfo(Qnil);
    RB_GC_GUARD(end.error);
    return 0;
}

/* Unlocks what the fiber has left locked. Returns the state in which the fiber ends. */
static int unlock_mutexes(int state)
{
    int tag = 0;
    if (nb_held_mutexes_some())
        rb_protect(nb_held_mutexes_unlock, Qnil, &tag);
    return tag ? tag : state;
}

/* In a child that a fiber has forked, the process ends with that fiber. */
static void finish(nb_loop_t *loop, int state, pid_t pid)
{
    if (loop->pid != pid && !loop->closed)
        state = end_others(loop, state);
    bool failed = state && !passes_on(rb_errinfo());
    if (failed)
        state = end_by_error(loop);
    if (!loop->closed) {
        state = unlock_mutexes(state);
        nb_forget_interrupts(loop);
        if (RHASH_SIZE(loop->early_unblocks))
            rb_hash_delete(loop->early_unblocks, rb_fiber_current());
        nb_idle_over(loop, rb_fiber_current());
        loop->fibers--;
        ended++;
        nb_fiber_left(loop);
    }
    if (state)
        rb_jump_tag(state);
    if (failed && loop->pid != pid)
        rb_exit(EXIT_FAILURE);
}

/* Of its own, $? is nil, as in a new thread. */
static VALUE call_block(VALUE block)
{
    nb_own_matches(block);
    nb_last_status_restore(nb_loop_any(rb_fiber_scheduler_get()), Qnil);
    return rb_proc_call_with_block(block, 0, NULL, Qnil);
}

static VALUE fiber_main(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, block))
{
    int state = 0;
    VALUE scheduler = rb_fiber_scheduler_get(); /* a forked child may have none at the end */
    nb_loop_t *loop = nb_loop_any(scheduler);
    pid_t pid = loop->pid;
    loop->fibers++;
    VALUE value = rb_protect(call_block, block, &state);
    finish(loop, state, pid);
    RB_GC_GUARD(scheduler);
    return value;
}

typedef struct {
    nb_loop_t *loop;
    VALUE fiber;
} nb_entry_t;

static VALUE enter_fiber(VALUE argument)
{
    nb_entry_t *entry = (nb_entry_t *)argument;
    nb_enter(entry->loop, entry->fiber);
    return Qnil;
}

/* Ruby keeps the stack of a fiber that was entered by transfer until the garbage collector finds
 * that the fiber has ended. When the system has no room for another stack, these may be the
 * cause. */
static bool make_room(VALUE error)
{
    VALUE message = rb_funcall(error, rb_intern("message"), 0);
    bool stack = strstr(StringValueCStr(message), "guard page") ||
                 strstr(StringValueCStr(message), "machine stack");
    if (!stack || !ended)
        return false;
    ended = 0;
    rb_gc_start();
    return true;
}

static VALUE no_room(VALUE argument, VALUE error)
{
    if (!make_room(error))
        rb_exc_raise(error);
    return enter_fiber(argument);
}

static VALUE enter(nb_entry_t *entry)
{
    return rb_rescue2(enter_fiber, (VALUE)entry, no_room, (VALUE)entry, cFiberError, (VALUE)0);
}

/* @overload fiber(&block)
 *   Runs the block in a new non-blocking fiber, at once, until it first waits (Fiber.schedule).
 *   @return [Fiber] alive or already ended
 *   @scheduling does not wait: the caller continues as soon as the new fiber waits or ends. From
 *     the 16th start on, other fibers get a turn about once per millisecond, before the new one
 *     begins. Nothing is raised in the caller during that turn */
static VALUE rb_nb_scheduler_fiber(VALUE self)
{
    nb_loop_t *loop = nb_loop_get(self);
    rb_need_block();
    if (rb_fiber_scheduler_current() == self)
        nb_before_start(loop);
    nb_entry_t entry = {loop, nb_fiber_new(fiber_main, rb_block_proc())};
    enter(&entry);
    return entry.fiber;
}

/* @!visibility private - a new fiber of the loop for the block: for #enter. */
static VALUE rb_nb_scheduler_new_fiber(VALUE self)
{
    rb_need_block();
    return nb_fiber_new(fiber_main, rb_block_proc());
}

/* @!visibility private - runs a fiber of #new_fiber until it first waits or ends. */
static VALUE rb_nb_scheduler_enter(VALUE self, VALUE fiber)
{
    nb_entry_t entry = {nb_loop_get(self), fiber};
    return enter(&entry);
}

/* @!visibility private - if the fiber is ready, runs it now; the caller continues afterwards. */
static VALUE rb_nb_scheduler_give_way(VALUE self, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_get(self);
    nb_park_t *park = nb_park_of(loop, fiber);
    if (park && park->state == NB_READY)
        nb_give_way(park);
    return Qnil;
}

typedef struct {
    VALUE (*body)(VALUE);
    void (*failed)(VALUE);
    VALUE argument;
} nb_spawn_t;

/* A fiber of nb_spawn begins with this: a Ruby block that calls `spawned`. If only C were below,
 * the blocks that C makes would point to the local variables of whoever made the fiber. Those may
 * be gone, and on Ruby 3.4 an `each(&block)` of a response's body reads them. */
static VALUE spawner = Qnil;
static ID id_boxed;

/* @!visibility private */
static VALUE rb_nb_native_on_spawn(VALUE mod)
{
    spawner = rb_block_proc();
    return Qnil;
}

/* @!visibility private */
static VALUE rb_nb_native_spawned(VALUE mod)
{
    int state = 0;
    VALUE boxed = rb_ivar_get(rb_fiber_current(), id_boxed);
    VALUE scheduler = rb_fiber_scheduler_get();
    nb_loop_t *loop = nb_loop_any(scheduler);
    pid_t pid = loop->pid;
    nb_spawn_t spawn = *(nb_spawn_t *)RSTRING_PTR(boxed);
    nb_started(loop);
    nb_last_status_restore(loop, Qnil);
    VALUE value = rb_protect(spawn.body, spawn.argument, &state);
    finish(loop, state, pid);
    RB_GC_GUARD(boxed);
    RB_GC_GUARD(scheduler);
    return value;
}

static bool spawn_failed(nb_loop_t *loop, VALUE boxed, VALUE error)
{
    nb_spawn_t spawn = *(nb_spawn_t *)RSTRING_PTR(boxed);
    if (make_room(error))
        return true;
    loop->fibers--;
    nb_fiber_left(loop);
    spawn.failed(spawn.argument);
    RB_GC_GUARD(boxed);
    return false;
}

void nb_spawn(nb_loop_t *loop, VALUE (*body)(VALUE), void (*failed)(VALUE), VALUE argument)
{
    nb_spawn_t spawn = {body, failed, argument};
    VALUE boxed = rb_str_new((const char *)&spawn, sizeof(spawn));
    VALUE fiber = rb_funcall_with_block_kw(rb_path2class("Fiber"), id_new, 1, &nonblocking, spawner,
                                           RB_PASS_KEYWORDS);
    rb_ivar_set(fiber, id_boxed, boxed);
    nb_start(loop, fiber, spawn_failed, boxed);
    loop->fibers++;
}

/* @!visibility private - drops what was to be raised in the current fiber at its next wait: its
 *   work has ended, and the next belongs to another. For pools. */
static VALUE rb_nb_scheduler_forget_interrupts(VALUE self)
{
    nb_forget_interrupts(nb_loop_get(self));
    return Qnil;
}

/* @overload yield
 *   Lets the other ready fibers run, then continues.
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_yield(VALUE self)
{
    nb_yield(nb_loop_get(self));
    return Qnil;
}

/* @overload run
 *   Runs the fibers until none is left that keeps the loop running. A fiber of the loop that calls
 *   this only lets the others have their turn.
 *   @scheduling always waits */
static VALUE rb_nb_scheduler_run(VALUE self)
{
    nb_run(nb_loop_get(self));
    return self;
}

/* @!visibility private - whether the fiber is parked in this loop. */
static VALUE rb_nb_scheduler_waiting_p(VALUE self, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    return !loop->closed && nb_ptrmap_get(&loop->parked, fiber) ? Qtrue : Qfalse;
}

/* @!visibility private - whether the fiber, or one that it resumed (an Enumerator's), is parked. */
static VALUE rb_nb_scheduler_waiting_within_p(VALUE self, VALUE fiber)
{
    nb_loop_t *loop = nb_loop_any(self);
    return !loop->closed && nb_park_of(loop, fiber) ? Qtrue : Qfalse;
}

/* @!visibility private - runs the block, which may transfer to another fiber of the loop; the
 *   caller continues when that one waits or ends. */
static VALUE rb_nb_scheduler_hand_over(VALUE self)
{
    return nb_hand_over(nb_loop_get(self), nb_yield_block, Qnil);
}

void Init_nb_hooks_fiber(VALUE cScheduler)
{
    id_report = rb_intern("report");
    id_new = rb_intern("new");
    cFiberError = rb_path2class("FiberError");
    nonblocking = rb_hash_new();
    rb_hash_aset(nonblocking, ID2SYM(rb_intern("blocking")), Qfalse);
    rb_obj_freeze(nonblocking);
    rb_gc_register_mark_object(nonblocking);
    id_boxed = rb_intern("neverblock_boxed"); /* no name that Ruby code could use */
    rb_gc_register_address(&spawner);
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "on_spawn", rb_nb_native_on_spawn, 0);
    rb_define_singleton_method(mNative, "spawned", rb_nb_native_spawned, 0);
    rb_define_method(cScheduler, "fiber", rb_nb_scheduler_fiber, 0);
    rb_define_method(cScheduler, "forget_interrupts", rb_nb_scheduler_forget_interrupts, 0);
    rb_define_method(cScheduler, "yield", rb_nb_scheduler_yield, 0);
    rb_define_method(cScheduler, "run", rb_nb_scheduler_run, 0);
    rb_define_method(cScheduler, "waiting?", rb_nb_scheduler_waiting_p, 1);
    rb_define_private_method(cScheduler, "waiting_within?", rb_nb_scheduler_waiting_within_p, 1);
    rb_define_method(cScheduler, "hand_over", rb_nb_scheduler_hand_over, 0);
    rb_define_private_method(cScheduler, "new_fiber", rb_nb_scheduler_new_fiber, 0);
    rb_define_private_method(cScheduler, "enter", rb_nb_scheduler_enter, 1);
    rb_define_private_method(cScheduler, "give_way", rb_nb_scheduler_give_way, 1);
}
