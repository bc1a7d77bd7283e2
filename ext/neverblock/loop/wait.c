/* wait.c - parking and waking fibers. Ruby. Read after: wait.h. */
#include "loop/wait.h"
#include "base/clock.h"
#include "loop/guest.h"

#define POLL_EVERY 64 /* switches between two looks at the backend while fibers are ready */

static void on_due(nb_timer_t *timer)
{
    nb_wake(nb_container_of(timer, nb_park_t, timer), NB_WOKEN_BY_TIMER);
}

void nb_park_init(nb_loop_t *loop, nb_park_t *park, nb_park_kind_t kind)
{
    VALUE fiber = rb_fiber_current();
    *park = (nb_park_t){
        .loop = loop,
        .fiber = fiber,
        .owner = loop->current ? loop->current : fiber,
        .exception = Qundef,
        .timer = {.index = NB_TIMER_IDLE, .on_due = on_due, .when_ns = NB_NEVER},
        .since_ns = loop->now_ns,
        .ready_place = NB_READY_IDLE,
        .kind = kind,
        .state = NB_PARKED,
    };
}

static void on_ready(nb_watch_t *watch, int mask)
{
    nb_park_t *park = nb_container_of(watch, nb_park_watch_t, watch)->park;
    park->mask |= mask;
    nb_wake(park, NB_WOKEN);
}

void nb_park_watch_init(nb_park_watch_t *watch, nb_park_t *park, int fd, int mask)
{
    *watch =
        (nb_park_watch_t){.park = park, .watch = {.fd = fd, .mask = mask, .on_ready = on_ready}};
}

void nb_park_deadline(nb_park_t *park, uint64_t when_ns)
{
    park->timer.when_ns = when_ns;
}

static void make_ready(nb_park_t *park, nb_reason_t reason, bool first)
{
    nb_ready_t *ready = &park->loop->ready;
    if (park->state == NB_PARKED) {
        if (nb_ready_reserve(ready) < 0)
            rb_memerror();
        park->state = NB_READY;
        park->reason = reason;
        park->ready_place = first ? nb_ready_push_front(ready, park) : nb_ready_push(ready, park);
        nb_loop_wakeup(park->loop);
    } else if (park->state == NB_READY && reason > park->reason) {
        park->reason = reason;
    }
}

void nb_wake(nb_park_t *park, nb_reason_t reason)
{
    make_ready(park, reason, false);
}
void nb_wake_first(nb_park_t *park, nb_reason_t reason)
{
    make_ready(park, reason, true);
}

static void enter(nb_loop_t *loop, nb_park_t *self, VALUE fiber, VALUE owner)
{
    loop->current = owner;
    loop->eager = 0;
    loop->counters.switches++;
    rb_fiber_transfer(fiber, 0, NULL);
    loop->current = self->owner;
}

/* Pops a park and marks it running; a fiber that never ran comes back as a park of its own. */
static nb_park_t *next_ready(nb_loop_t *loop)
{
    if (++loop->since_poll > POLL_EVERY && loop->ready.count)
        nb_loop_turn(loop, false);
    nb_park_t *next = nb_ready_pop(&loop->ready);
    if (next) {
        next->state = NB_RUNNING;
        next->ready_place = NB_READY_IDLE;
    }
    return next;
}

/* Exceptions for a fiber that cannot be raised at now, in their order: none replaces another. */
static VALUE deferred_of(nb_loop_t *loop, VALUE fiber)
{
    VALUE queue = rb_hash_aref(loop->deferred, fiber);
    if (NIL_P(queue))
        rb_hash_aset(loop->deferred, fiber, queue = rb_ary_new());
    return queue;
}

static void defer(nb_loop_t *loop, VALUE fiber, VALUE exception)
{
    rb_ary_push(deferred_of(loop, fiber), exception);
}

/* Returns nil if there is none. */
static VALUE take_deferred(nb_loop_t *loop, VALUE fiber)
{
    VALUE queue = rb_hash_aref(loop->deferred, fiber);
    if (NIL_P(queue))
        return Qnil;
    VALUE exception = rb_ary_shift(queue);
    if (!RARRAY_LEN(queue))
        rb_hash_delete(loop->deferred, fiber);
    return exception;
}

static void enter_new(nb_loop_t *loop, nb_park_t *self, nb_park_t *start)
{
    VALUE fiber = start->fiber, exception = start->exception;
    nb_ptrmap_remove(&loop->parked, fiber);
    xfree(start);
    if (exception != Qundef)
        defer(loop, fiber, exception);
    enter(loop, self, fiber, fiber);
    RB_GC_GUARD(fiber);
}

/* Control may also come back because some fiber ended: Ruby then goes on in the thread's first
 * fiber. Whoever finds itself here without having been popped goes on serving the others. */
static VALUE park_wait(VALUE argument)
{
    nb_park_t *self = (nb_park_t *)argument;
    nb_loop_t *loop = self->loop;
    if (self->first)
        enter(loop, self, self->first, self->first);
    while (self->state != NB_RUNNING) {
        nb_park_t *next = next_ready(loop);
        if (!next)
            nb_loop_turn(loop, true);
        else if (next->kind == NB_PARK_START)
            enter_new(loop, self, next);
        else if (next != self)
            enter(loop, self, next->fiber, next->owner);
    }
    return Qnil;
}

static VALUE park_leave(VALUE argument)
{
    nb_park_t *self = (nb_park_t *)argument;
    nb_loop_t *loop = self->loop;
    nb_ptrmap_remove(&loop->parked, self->fiber);
    nb_timers_remove(&loop->timers, &self->timer);
    if (self->ready_place != NB_READY_IDLE)
        nb_ready_take_out(&loop->ready, self->ready_place);
    for (int i = 0; i < self->watch_count; i++)
        nb_fdtable_remove(&loop->fds, &self->watches[i].watch);
    self->state = NB_RUNNING;
    if (nb_guest_is_host(loop, self->fiber))
        nb_guest_rest(loop);
    return Qnil;
}

static void raise_deferred(nb_park_t *park)
{
    VALUE exception = take_deferred(park->loop, park->fiber);
    if (exception == Qnil)
        exception = take_deferred(park->loop, park->owner);
    if (exception != Qnil) {
        park_leave((VALUE)park);
        rb_exc_raise(exception);
    }
}

static VALUE check_interrupts(RB_BLOCK_CALL_FUNC_ARGLIST(value, data))
{
    rb_thread_check_ints();
    return Qnil;
}

VALUE nb_take_interrupts(VALUE data)
{
    VALUE mask = rb_hash_new();
    rb_hash_aset(mask, rb_cObject, ID2SYM(rb_intern("immediate")));
    rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, check_interrupts, Qnil);
    return data;
}

static void take_overdue(nb_park_t *park)
{
    int tag = 0;
    rb_protect(nb_take_interrupts, Qnil, &tag);
    if (tag) {
        park_leave((VALUE)park);
        rb_jump_tag(tag);
    }
}

nb_reason_t nb_park(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    if (loop->overdue && loop->overdue == park->owner)
        take_overdue(park);
    if (RHASH_SIZE(loop->deferred))
        raise_deferred(park);
    if ((park->timer.when_ns != NB_NEVER && nb_timers_add(&loop->timers, &park->timer) < 0) ||
        nb_ptrmap_add(&loop->parked, park->fiber, park) < 0) {
        park_leave((VALUE)park);
        rb_memerror();
    }
    rb_ensure(park_wait, (VALUE)park, park_leave, (VALUE)park);
    if (park->exception != Qundef)
        rb_exc_raise(park->exception);
    if (park->raise)
        park->raise(park->raise_data);
    return park->reason;
}

nb_park_t *nb_park_of(nb_loop_t *loop, VALUE fiber)
{
    nb_park_t *park = nb_ptrmap_get(&loop->parked, fiber);
    for (size_t i = 0; !park && loop->parked.slots && i <= loop->parked.mask; i++) {
        nb_park_t *other = loop->parked.slots[i].key ? loop->parked.slots[i].value : NULL;
        if (other && other->owner == fiber)
            park = other;
    }
    return park;
}

bool nb_park_raises(const nb_park_t *park)
{
    return park->raise || park->exception != Qundef;
}

/* Mutex, Queue and ConditionVariable wake one of several waiters and forget it. If that one raised
 * instead of taking what it was woken for, the others would wait for ever: from unblock on, what is
 * to be raised in it comes at its next wait. */
static bool was_unblocked(const nb_park_t *park)
{
    return (park->kind == NB_PARK_BLOCK || park->kind == NB_PARK_SLEEP) &&
           park->state == NB_READY && park->reason == NB_WOKEN;
}

bool nb_park_may_raise(const nb_park_t *park)
{
    return !nb_park_raises(park) && !was_unblocked(park);
}

void nb_unblock(nb_park_t *park)
{
    nb_wake(park, NB_WOKEN);
    if (park->exception != Qundef)
        rb_ary_unshift(deferred_of(park->loop, park->fiber), park->exception);
    if (park->raise)
        park->put_off(park->raise_data);
    park->exception = Qundef;
    park->raise = NULL;
    park->reason = NB_WOKEN;
}

void nb_interrupt(nb_loop_t *loop, VALUE fiber, VALUE exception)
{
    nb_park_t *park = nb_park_of(loop, fiber);
    loop->counters.cancels++;
    if (park && nb_park_may_raise(park)) {
        park->exception = exception;
        nb_wake(park, NB_WOKEN_BY_EXCEPTION);
    } else if (RTEST(rb_fiber_alive_p(fiber))) {
        defer(loop, fiber, exception);
    }
}

void nb_yield(nb_loop_t *loop)
{
    loop->eager = 0;
    if (!loop->ready.count || loop->since_poll >= POLL_EVERY)
        nb_loop_turn(loop, false);
    if (!loop->ready.count && !RHASH_SIZE(loop->deferred))
        return;
    nb_park_t park;
    nb_park_init(loop, &park, NB_PARK_YIELD);
    nb_wake(&park, NB_WOKEN);
    nb_park(&park);
}

void nb_start(nb_loop_t *loop, VALUE fiber)
{
    nb_park_t *park = xmalloc(sizeof(*park));
    nb_park_init(loop, park, NB_PARK_START);
    park->fiber = park->owner = fiber;
    if (nb_ptrmap_add(&loop->parked, fiber, park) < 0) {
        xfree(park);
        rb_memerror();
    }
    nb_wake(park, NB_WOKEN);
}

void nb_enter(nb_loop_t *loop, VALUE fiber)
{
    nb_park_t park;
    nb_park_init(loop, &park, NB_PARK_HANDOFF);
    park.first = fiber;
    nb_wake_first(&park, NB_WOKEN);
    nb_park(&park);
}

VALUE nb_hand_over(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument)
{
    nb_park_t park;
    nb_park_init(loop, &park, NB_PARK_HANDOFF);
    if (loop->overdue && loop->overdue == park.owner)
        take_overdue(&park);
    if (nb_ptrmap_add(&loop->parked, park.fiber, &park) < 0)
        rb_memerror();
    nb_wake_first(&park, NB_WOKEN);
    VALUE value = rb_ensure(body, argument, park_leave, (VALUE)&park);
    loop->current = park.owner;
    return value;
}

void nb_fiber_left(nb_loop_t *loop)
{
    if (loop->runner && loop->fibers <= loop->run_floor)
        nb_wake(loop->runner, NB_WOKEN);
}

/* A switch between fibers can leave a pending interrupt flagged on the fiber that slept; waking our
 * own thread flags it on this one. */
static void take_interrupts(nb_loop_t *loop)
{
    loop->interrupted = false;
    rb_thread_wakeup_alive(loop->thread);
    rb_thread_check_ints();
}

typedef struct {
    nb_loop_t *loop;
    nb_park_t *outer;
    size_t outer_floor;
} nb_run_t;

static VALUE run_wait(VALUE argument)
{
    nb_loop_t *loop = ((nb_run_t *)argument)->loop;
    if (loop->fibers <= loop->run_floor && loop->ready.count)
        nb_yield(loop); /* a fiber in Scheduler#idle may just have been given work */
    while (loop->fibers > loop->run_floor) {
        nb_park_t park;
        nb_park_init(loop, &park, NB_PARK_ROOT);
        loop->runner = &park;
        nb_park(&park);
        loop->runner = NULL;
        if (loop->interrupted)
            take_interrupts(loop);
    }
    return Qnil;
}

static VALUE run_leave(VALUE argument)
{
    nb_run_t *run = (nb_run_t *)argument;
    run->loop->runner = run->outer;
    run->loop->run_floor = run->outer_floor;
    return Qnil;
}

void nb_run(nb_loop_t *loop)
{
    nb_run_t run = {loop, loop->runner, loop->run_floor};
    VALUE fiber = rb_fiber_current();
    if (nb_guest_is_host(loop, fiber))
        rb_raise(rb_path2class("FiberError"),
                 "waiting here would stop the event loop whose guest ours is, and "
                 "with it what is waited for: use NB.async, or a fiber pool");
    /* Ruby closes the scheduler of a forked child in whichever fiber forked. */
    bool counted = !RTEST(rb_funcall(fiber, rb_intern("blocking?"), 0));
    loop->run_floor = counted ? 1 : 0;
    rb_ensure(run_wait, (VALUE)&run, run_leave, (VALUE)&run);
}
