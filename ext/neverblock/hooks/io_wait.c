/* io_wait.c - io_wait, and waiting for one fd. Uses ruby.h. Read after: wait.h, fdtable.h,
 * descriptor.h. */
#include "hooks/hooks.h"
#include "base/clock.h"
#include "base/portable.h"
#include "hooks/descriptor.h"
#include "hooks/io_timeout.h"
#include <ruby/io.h>

int nb_wait_fd(nb_loop_t *loop, int fd, int mask, uint64_t deadline_ns)
{
    nb_park_t park;
    nb_park_watch_t watch;
    nb_park_init(loop, &park, NB_PARK_IO);
    nb_park_watch_init(&watch, &park, fd, mask);
    int ready = nb_fdtable_add(&loop->fds, &watch.watch);
    if (ready > 0)
        return ready;
    if (ready < 0)
        rb_syserr_fail(-ready, NULL);
    loop->counters.io_waits++;
    park.watches = &watch;
    park.watch_count = 1;
    nb_park_deadline(&park, deadline_ns);
    nb_reason_t reason = nb_park(&park);
    if (park.mask &
        NB_CLOSED) /* whatever else woke it, the number may belong to another file now */
        rb_raise(rb_eIOError, "stream closed in another thread");
    return reason == NB_WOKEN ? park.mask & mask : 0;
}

static bool is_dry(const nb_descriptor_t *at, int mask)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    return (slot->doubtful && mask == NB_READABLE) || (slot->dry & mask) == mask;
}

/* Returns what of mask is ready now, or an event beyond it after a hangup or an error. */
static int ask(const nb_descriptor_t *at, int mask)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    int ready = nb_poll_now(at->fd, mask);
    if (ready < 0)
        rb_syserr_fail(-ready, NULL);
    if (!ready && slot->registered)
        slot->dry |= (uint8_t)mask;
    return ready;
}

/* Whether io_wait may leave it to the next turn to ask the kernel, for all fibers at once. */
static bool may_leave_it(const nb_loop_t *loop, const nb_slot_t *slot, int mask)
{
    return mask == NB_READABLE && loop->fds.backend.ops->edge && slot->registered && !slot->hung_up;
}

/* Others can go on: they go first. A fiber that asks for itself often finds the answer there, if
 * its server shares this core, and goes on alone while the other servers wait. That there is
 * nothing to read yet is a guess. */
static bool lets_others_go_first(const nb_descriptor_t *at, int mask)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    if (!at->loop->ready.count || slot->woken || !may_leave_it(at->loop, slot, mask))
        return false;
    if (slot->misled) {
        slot->misled--;
        return false;
    }
    slot->doubtful = 1;
    return true;
}

/* The answer was there at once, so perhaps those of others are, too. */
static void look_for_others(nb_descriptor_t *at, int mask)
{
    nb_loop_t *loop = at->loop;
    nb_slot_t *slot = nb_descriptor_slot(at);
    if (loop->fds.count > 1 && !slot->misled && may_leave_it(loop, slot, mask)) {
        nb_yield(loop);
        nb_descriptor_check(at);
    }
}

/* The caller will read what is there, presumably all of it. */
static int found(const nb_descriptor_t *at, int ready)
{
    if (ready & NB_READABLE) {
        nb_slot_t *slot = nb_descriptor_slot(at);
        slot->woken = slot->misses = 0;
    }
    return ready;
}

/* @overload io_wait(io, events, timeout)
 *   Waits until io is ready for one of the events.
 *   @param io [IO]
 *   @param events [Integer] IO::READABLE | IO::PRIORITY | IO::WRITABLE; others never come
 *   @param timeout [Numeric, nil] seconds; 0 asks the kernel now; nil: IO#timeout
 *   @return [Integer, false] the events that are ready, false after the timeout
 *   @raise [IOError] if io is closed meanwhile
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout)
{
    nb_descriptor_t at = {.loop = nb_loop_get(self), .io = nb_io_of(io)};
    int mask = NUM2INT(events) & (NB_READABLE | NB_PRIORITY | NB_WRITABLE);
    if (NUM2INT(events) <= 0)
        rb_raise(rb_eArgError,
                 "io_wait: events must be of IO::READABLE | PRIORITY | WRITABLE, got: %" PRIsVALUE,
                 rb_inspect(events));
    VALUE patience = NIL_P(timeout) ? nb_io_timeout(at.io) : timeout;
    if (!NIL_P(timeout))
        nb_check_interval(timeout);
    uint64_t deadline = nb_deadline(at.loop, patience);
    bool only_ask = deadline != NB_NEVER && NUM2DBL(patience) <= 0;
    nb_descriptor_take(&at);
    if (only_ask || !mask || !(is_dry(&at, mask) || lets_others_go_first(&at, mask))) {
        nb_eager(at.loop);
        nb_descriptor_check(&at); /* Ruby may have made the IO from a bare number for this call */
        int ready = ask(&at, mask);
        if (!ready && only_ask)
            nb_io_timed_out(timeout);
        if (only_ask)
            return ready ? INT2FIX(ready) : Qfalse;
        if (ready) {
            look_for_others(&at, mask);
            return INT2FIX(found(&at, ready));
        }
    }
    /* Other events than those three never come; a hangup does, and IO#close. */
    int ready = nb_wait_fd(at.loop, at.fd, mask ? mask : NB_PRIORITY, deadline);
    nb_descriptor_check(&at);
    if (!ready)
        ready = ask(&at, mask);
    if (!ready)
        nb_io_timed_out(timeout);
    RB_GC_GUARD(io);
    return ready ? INT2FIX(found(&at, ready)) : Qfalse;
}

void Init_nb_hooks_io_wait(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_wait", rb_nb_scheduler_io_wait, 3);
}
