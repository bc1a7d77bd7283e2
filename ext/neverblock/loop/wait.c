/* wait.c - parking and waking fibers. Uses ruby.h. Read after: wait.h. */
#include "loop/wait.h"
#include "loop/transferred.h"
#include "loop/resume_chain.h"
#include "loop/guest.h"
#include "loop/shield.h"
#include "loop/suspended_timer.h"
#include "loop/last_status.h"
#include "loop/profile.h"
#include "loop/gvl_share.h"
#include <ruby/fiber/scheduler.h>

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

static void enter(nb_loop_t *loop, nb_park_t *self, VALUE fiber, VALUE owner)
{
    loop->current = owner;
    loop->eager = 0;
    loop->counters.switches++;
    if (NIL_P(rb_fiber_scheduler_current()))
        nb_transferred_enter(loop, self, fiber);
    else
        rb_fiber_transfer(fiber, 0, NULL);
    RB_GC_GUARD(fiber); /* Ruby 4 looks at it once more here, when it has ended long ago */
    if (loop->unlock)
        loop->unlock(loop, Qnil);
    loop->current = self->owner;
}

#ifdef NB_CHAOS
static bool has_its_place(const nb_park_t *park)
{
    return !park || park->kind == NB_PARK_HANDOFF || park->kind == NB_PARK_ROOT;
}

/* Swaps another ready park with the first one. */
static void nb_shuffle(nb_loop_t *loop)
{
    nb_ready_t *ready = &loop->ready;
    if (ready->tail - ready->head < 2 || !nb_chaos(NB_CHAOS_ORDER))
        return;
    size_t first = ready->head, other = first + nb_chaos_pick(ready->tail - first);
    nb_park_t **one = &ready->items[first & ready->mask],
              **two = &ready->items[other & ready->mask];
    nb_park_t *park = *one;
    if (has_its_place(*one) || has_its_place(*two))
        return;
    *one = *two;
    *two = park;
    (*one)->ready_place = first;
    (*two)->ready_place = other;
}
#else
#define nb_shuffle(loop) ((void)0)
#endif

/* Pops a park and marks it as running; a fiber that never ran comes back as a park of its own. */
static nb_park_t *next_ready(nb_loop_t *loop, nb_park_t *self)
{
    loop->since_poll++;
    if (loop->ready.count && (loop->since_poll > NB_POLL_EVERY || nb_slice_is_over(loop))) {
        nb_gvl_share(loop);
        if (self->state == NB_RUNNING) /* a trap handler that waited on this fiber has popped it */
            return self;
        nb_loop_turn(loop, false);
    }
    nb_shuffle(loop);
    nb_park_t *next = nb_ready_pop(&loop->ready);
    if (next) {
        next->state = NB_RUNNING;
        next->ready_place = NB_READY_IDLE;
        if (next->kind != NB_PARK_HANDOFF) {
            loop->turn_ns = loop->now_ns;
            loop->starts = 0;
        }
    }
    return next;
}

/* Returns 0 or -ENOMEM. */
static int link_park(nb_park_t *park)
{
    nb_ptrmap_t *parked = &park->loop->parked;
    if (nb_ptrmap_reserve(parked) < 0)
        return -ENOMEM;
    park->outer = nb_ptrmap_put(parked, park->fiber, park);
    park->linked = true;
    park->status = rb_last_status_get();
    return 0;
}

static inline void unlink_park(nb_park_t *park)
{
    if (!park->linked)
        return;
    if (!park->outer)
        nb_ptrmap_remove(&park->loop->parked, park->fiber);
    else /* there is room, except in a forked child */
        (void)nb_ptrmap_add(&park->loop->parked, park->fiber, park->outer);
    park->linked = false;
}

typedef struct {
    nb_park_t park;
    nb_start_failed_t failed;
    VALUE argument;
} nb_start_t;

typedef struct {
    nb_loop_t *loop;
    nb_park_t *self;
    VALUE fiber;
} nb_entrance_t;

static VALUE try_to_enter(VALUE argument)
{
    nb_entrance_t *entrance = (nb_entrance_t *)argument;
    enter(entrance->loop, entrance->self, entrance->fiber, entrance->fiber);
    return Qnil;
}

/* Ruby allocates a fiber's stack at its first entry, and if there is no room, raises in the fiber
 * that enters it. That does not concern the entering fiber, which only happened to be next. */
static void enter_new(nb_loop_t *loop, nb_park_t *self, nb_start_t start)
{
    nb_entrance_t entrance = {loop, self, start.park.fiber};
    VALUE error = Qnil;
    int tag = 0;
    if (start.park.exception != Qundef)
        nb_defer(loop, entrance.fiber, start.park.exception);
    do {
        loop->starting = entrance.fiber;
        rb_protect(try_to_enter, (VALUE)&entrance, &tag);
        if (tag && loop->starting != entrance.fiber)
            rb_jump_tag(tag); /* it has begun, so this is our own, such as a signal */
        loop->current = self->owner;
        loop->starting = 0;
        error = tag ? rb_errinfo() : Qnil;
        rb_set_errinfo(Qnil);
    } while (tag && start.failed(loop, start.argument, error));
    RB_GC_GUARD(entrance.fiber);
    RB_GC_GUARD(start.argument);
}

static nb_park_t *non_blocking_park(nb_loop_t *loop)
{
    for (size_t i = 0; i <= loop->parked.mask; i++) {
        nb_park_t *park = loop->parked.slots[i].value;
        if (park && park->kind != NB_PARK_START &&
            !RTEST(rb_funcall(park->fiber, rb_intern("blocking?"), 0)))
            return park;
    }
    return NULL;
}

/* In a blocking fiber, such as the thread's first one, a failed entry leaves Ruby's count of
 * blocking fibers wrong (all versions), and from then on no hook would be called. So another fiber
 * enters the new one. Not inlined: every park's stack would have room for this frame, and a fiber
 * that waits for a socket would use a second page (464 bytes; 4 % of an echo's misses). */
NOINLINE(static void start_new(nb_loop_t *loop, nb_park_t *self, nb_park_t *park));
static void start_new(nb_loop_t *loop, nb_park_t *self, nb_park_t *park)
{
    bool blocking = RTEST(rb_funcall(self->fiber, rb_intern("blocking?"), 0));
    nb_park_t *other = blocking ? non_blocking_park(loop) : NULL;
    if (other) {
        park->state = NB_PARKED;
        nb_wake_first(park, NB_WOKEN);
        enter(loop, self, other->fiber, other->owner);
        return;
    }
    nb_start_t start = *nb_container_of(park, nb_start_t, park);
    unlink_park(park);
    xfree(nb_container_of(park, nb_start_t, park));
    enter_new(loop, self, start);
}

/* Ruby flags an interrupt on the fiber that runs when it comes (3.4: the first of several; the
 * others are the leader's). As a rule it looks before it waits, but not after a call in C that lets
 * threads run without a look (rb_thread_call_without_gvl2). A ready fiber looks when it runs. */
static void look_before_wait(const nb_park_t *self)
{
    bool leads = self->fiber == self->loop->leader;
    if (self->kind < NB_PARK_YIELD && (leads || rb_thread_interrupted(self->loop->thread)))
        rb_thread_check_ints();
}

/* Control may also come back for two other reasons. Some fiber ended, and Ruby continued in the
 * thread's first fiber; or an outer park of this one was woken, which continues when this one has
 * ended. A fiber that finds itself here without having been popped serves the others. */
static VALUE park_wait(VALUE argument)
{
    nb_park_t *self = (nb_park_t *)argument;
    nb_loop_t *loop = self->loop;
    look_before_wait(self);
    if (self->first)
        enter(loop, self, self->first, self->first);
    while (self->state != NB_RUNNING) {
        nb_park_t *next = next_ready(loop, self);
        if (!next) {
            nb_loop_turn(loop, true);
            nb_gvl_share(loop); /* unless that has slept */
        } else if (next->kind == NB_PARK_START) {
            start_new(loop, self, next);
        } else if (next->fiber != self->fiber) {
            enter(loop, self, next->fiber, next->owner);
        }
    }
    return Qnil;
}

static VALUE park_leave(VALUE argument)
{
    nb_park_t *self = (nb_park_t *)argument;
    nb_loop_t *loop = self->loop;
    loop->current = self->owner; /* Fiber#raise comes here without the loop */
    if (loop->unlock)
        loop->unlock(loop, rb_errinfo());
    if (self->seen) {
        nb_profile_ends(self->seen);
        self->seen = NULL;
    }
    unlink_park(self);
    nb_timers_remove(&loop->timers, &self->timer);
    if (self->ready_place != NB_READY_IDLE)
        nb_ready_take_out(&loop->ready, self->ready_place);
    for (int i = 0; i < self->watch_count; i++)
        nb_fdtable_remove(&loop->fds, &self->watches[i].watch);
    self->state = NB_RUNNING;
    if (nb_guest_is_host(loop, self->fiber))
        loop->guest.rest(loop);
    if (self->status)
        nb_last_status_restore(loop, self->status);
    return Qnil;
}

/* The exception to raise at the fiber's next wait, if there is one. */
static void raise_deferred(nb_park_t *park)
{
    if (!RHASH_SIZE(park->loop->deferred))
        return;
    VALUE exception = nb_take_deferred(park->loop, park->fiber);
    if (exception == Qnil && !nb_shielded(park->loop, park->fiber, 0))
        exception = nb_take_deferred(park->loop, park->owner);
    if (exception != Qnil) {
        park_leave((VALUE)park);
        nb_raise(exception);
    }
}

static void take_overdue(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    if (!loop->overdue || loop->overdue != park->owner)
        return;
    int tag = 0;
    rb_protect(nb_take_interrupts, Qnil, &tag);
    if (tag) {
        park_leave((VALUE)park);
        rb_jump_tag(tag);
    }
}

static int take_suspended_timers(nb_park_t *park)
{
    int result = nb_suspended_timers_take(park->loop, park->fiber);
    if (!result && park->owner != park->fiber)
        result = nb_suspended_timers_take(park->loop, park->owner);
    return result;
}

/* The loop's own time is as old as its last look at the kernel, and the fiber may have computed
 * since. What costs no system call does not pay 20 ns for the clock: queues, locks, and those that
 * only let others run. */
static void note_time(nb_park_t *park)
{
    if (park->kind != NB_PARK_BLOCK && park->kind != NB_PARK_YIELD &&
        park->kind != NB_PARK_HANDOFF && park->kind != NB_PARK_ROOT)
        park->since_ns = nb_loop_clock(park->loop);
}

nb_reason_t nb_park(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    if (!park->first) {
        take_overdue(park);
        raise_deferred(park);
    }
    note_time(park);
    park->unwinds = loop->ends && RTEST(rb_gv_get("$!"));
    if ((loop->suspended_timers && !park->first && take_suspended_timers(park) < 0) ||
        (park->timer.when_ns != NB_NEVER && nb_timers_add(&loop->timers, &park->timer) < 0) ||
        link_park(park) < 0) {
        park_leave((VALUE)park);
        rb_memerror();
    }
    if (nb_profile_on)
        park->seen = nb_profile_begins(park);
    nb_resume_chain_let_end(park->fiber);
    rb_ensure(park_wait, (VALUE)park, park_leave, (VALUE)park);
    if (park->exception != Qundef)
        nb_raise(park->exception);
    if (park->raise)
        park->raise(park->raise_data);
    return park->reason;
}

void nb_start(nb_loop_t *loop, VALUE fiber, nb_start_failed_t failed, VALUE argument)
{
    nb_start_t *start = xmalloc(sizeof(*start));
    start->failed = failed;
    start->argument = argument;
    nb_park_init(loop, &start->park, NB_PARK_START);
    start->park.fiber = start->park.owner = fiber;
    start->park.blocker = argument; /* marked */
    if (link_park(&start->park) < 0) {
        xfree(start);
        rb_memerror();
    }
    nb_wake(&start->park, NB_WOKEN);
}

void nb_started(nb_loop_t *loop)
{
    loop->starting = 0;
}

void nb_enter(nb_loop_t *loop, VALUE fiber)
{
    nb_park_t park;
    nb_park_init(loop, &park, NB_PARK_HANDOFF);
    park.first = fiber;
    nb_wake_first(&park, NB_WOKEN);
    nb_park(&park);
    take_overdue(&park); /* not before it has begun: it would be lost with what it was given */
    raise_deferred(&park);
}

void nb_give_way(nb_park_t *park)
{
    nb_loop_t *loop = park->loop;
    nb_park_t self;
    nb_park_init(loop, &self, NB_PARK_HANDOFF);
    nb_wake_first(&self, NB_WOKEN);
    if (nb_ready_reserve(&loop->ready) < 0) {
        park_leave((VALUE)&self);
        rb_memerror();
    }
    nb_ready_take_out(&loop->ready, park->ready_place);
    park->ready_place = nb_ready_push_front(&loop->ready, park);
    nb_park(&self);
}

VALUE nb_hand_over(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument)
{
    nb_park_t park;
    nb_park_init(loop, &park, NB_PARK_HANDOFF);
    park.handed_over = true;
    take_overdue(&park);
    if (link_park(&park) < 0)
        rb_memerror();
    nb_wake_first(&park, NB_WOKEN);
    return rb_ensure(body, argument, park_leave, (VALUE)&park);
}
