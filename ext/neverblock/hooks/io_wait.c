/* io_wait.c - io_wait, and waiting for one fd. Uses ruby.h. Read after: wait.h, fdtable.h,
 * descriptor.h. */
#include "hooks/hooks.h"
#include "base/clock.h"
#include "base/portable.h"
#include "hooks/descriptor.h"
#include "hooks/io_timeout.h"
#include <ruby/io.h>
#include <sys/socket.h>

#define GUESSES 32 /* that nothing can be read; the last is checked by asking the kernel */
#define GUESSES_AFTER_BYTES 2 /* guesses before the next check, if a check has found bytes */

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
    return (slot->unverified && mask == NB_READABLE) || (slot->dry & mask) == mask;
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

/* One datagram or one connection to accept for each wait would be too few. */
static bool flows(const nb_descriptor_t *at)
{
    nb_slot_t *slot = at->slot;
    if (!slot->flows) {
        int type = 0, listens = 1;
        socklen_t size = sizeof(int);
        bool known = getsockopt(at->fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                     getsockopt(at->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0;
        slot->flows = known && type == SOCK_STREAM && !listens ? 1 : 2;
    }
    return slot->flows == 1;
}

/* Whether io_wait may leave it to the next turn to ask the kernel, for all fibers at once. */
static bool may_leave_it(const nb_descriptor_t *at, int mask)
{
    const nb_slot_t *slot = nb_descriptor_slot(at);
    return mask == NB_READABLE && at->loop->fds.backend.ops->edge && slot->registered &&
           !slot->hung_up && flows(at);
}

/* If other fibers are ready, they go first. A fiber that asks for itself often finds its answer, if
 * its server shares this core, and continues alone while the other servers wait. That there is
 * nothing to read yet is a guess. It is checked now and then: otherwise a fiber that leaves bytes
 * unread each time would read only once per turn. */
static bool lets_others_go_first(const nb_descriptor_t *at, int mask)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    if (!at->loop->ready.count || slot->woken || !may_leave_it(at, mask))
        return false;
    if (slot->backoff) {
        slot->backoff--;
        return false;
    }
    if (++slot->guesses >= GUESSES)
        return false;
    slot->unverified = 1;
    return true;
}

static void check_guess(const nb_descriptor_t *at, bool ready)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    if (slot->guesses < GUESSES)
        return;
    slot->guesses = ready ? GUESSES - 1 - GUESSES_AFTER_BYTES : 0;
    nb_fdtable_checked(slot, ready);
}

/* The answer was there at once, so perhaps those of others are, too. */
static void look_for_others(nb_descriptor_t *at, int mask)
{
    nb_loop_t *loop = at->loop;
    if (loop->fds.count > 1 && !nb_descriptor_slot(at)->backoff && may_leave_it(at, mask)) {
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
    uint64_t ns = nb_interval_ns(patience);
    uint64_t deadline = ns == NB_NEVER ? NB_NEVER : nb_loop_clock(at.loop) + ns;
    bool only_ask = !ns;
    nb_descriptor_take(&at);
    bool was_dry = is_dry(&at, mask);
    if (only_ask || !mask || !(was_dry || lets_others_go_first(&at, mask))) {
        nb_eager(at.loop);
        nb_descriptor_check(&at); /* Ruby may have made the IO from a bare number for this call */
        int ready = ask(&at, mask);
        if (!ready && only_ask)
            nb_io_timed_out(timeout);
        if (only_ask)
            return ready ? INT2FIX(ready) : Qfalse;
        check_guess(&at, ready);
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
    if (ready && !was_dry) /* otherwise the caller has tried, and hooks/io.c counts that */
        ready = found(&at, ready);
    return ready ? INT2FIX(ready) : Qfalse;
}

void Init_nb_hooks_io_wait(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_wait", rb_nb_scheduler_io_wait, 3);
}
