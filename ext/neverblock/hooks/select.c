/* select.c - io_select: IO.select on any number of IOs, without a thread. Uses ruby.h.
 * Read after: wait.h. */
#include "base/clock.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <ruby/io.h>
#include <ruby/version.h>

typedef struct {
    nb_loop_t *loop;
    VALUE lists[3]; /* the arrays as given: readable, writable, exceptional */
    VALUE ios;      /* what they stand for, kept alive */
    struct pollfd *fds;
    nb_park_watch_t *watches;
    int count, buffered;
    uint64_t deadline;
    bool only_ask;
} nb_select_t;

static const int masks[3] = {NB_READABLE, NB_WRITABLE, NB_PRIORITY};

/* The IOs of the entries; may call their to_io. Raises the same errors in the same order as
 * IO.select: TypeError for something that is no IO, IOError for a closed one. */
static void convert(nb_select_t *select)
{
    for (int list = 0; list < 3; list++) {
        if (NIL_P(select->lists[list]))
            continue;
        for (long i = 0; i < RARRAY_LEN(select->lists[list]); i++) {
            rb_io_t *fptr;
            VALUE io = rb_io_get_io(RARRAY_AREF(select->lists[list], i));
            if (list == 1)
                io = rb_io_get_write_io(io);
            GetOpenFile(io, fptr);
            rb_ary_push(select->ios, io);
        }
    }
}

static bool is_buffered(nb_select_t *select, int index)
{
    rb_io_t *fptr;
    GetOpenFile(RARRAY_AREF(select->ios, index), fptr);
    return (select->fds[index].events & POLLIN) && rb_io_read_pending(fptr);
}

/* Their present fds; called again whenever others may have run. IOError for a closed one. Calls no
 * Ruby. */
static void collect(nb_select_t *select)
{
    select->count = select->buffered = 0;
    for (int list = 0; list < 3; list++) {
        if (NIL_P(select->lists[list]))
            continue;
        for (long i = 0; i < RARRAY_LEN(select->lists[list]); i++) {
            rb_io_t *fptr;
            VALUE io = RARRAY_AREF(select->ios, select->count);
            GetOpenFile(io, fptr);
            if (list == 0 && rb_io_read_pending(fptr))
                select->buffered++;
            select->fds[select->count++] =
                (struct pollfd){.fd = rb_io_descriptor(io), .events = nb_poll_events(masks[list])};
        }
    }
}

static bool is_ready(const struct pollfd *fd)
{
    return nb_poll_found(fd->revents) & nb_poll_mask(fd->events);
}

/* Asks the kernel about all of them. Returns how many are ready: a hangup counts for reading and
 * writing, not as exceptional. */
static int ask(nb_select_t *select)
{
    int result, ready = 0;
    collect(select);
    do {
        result = poll(select->fds, (nfds_t)select->count, 0);
    } while (result < 0 && errno == EINTR);
    if (result < 0)
        rb_syserr_fail(errno, "select");
    for (int i = 0; result && i < select->count; i++) {
        if (select->fds[i].revents & POLLNVAL)
            rb_syserr_fail(EBADF, NULL);
        ready += is_ready(&select->fds[i]);
    }
    return ready;
}

static VALUE results(nb_select_t *select)
{
    VALUE found[3] = {rb_ary_new(), rb_ary_new(), rb_ary_new()};
    int index = 0;
    for (int list = 0; list < 3; list++) {
        long length = NIL_P(select->lists[list]) ? 0 : RARRAY_LEN(select->lists[list]);
        for (long i = 0; i < length && index < select->count; i++, index++) {
            int mask = nb_poll_found(select->fds[index].revents);
            if ((mask & masks[list]) || is_buffered(select, index))
                rb_ary_push(found[list], RARRAY_AREF(select->lists[list], i));
        }
    }
    return rb_ary_new_from_values(3, found);
}

typedef struct {
    nb_select_t *select;
    nb_park_t park;
    size_t hung_up;
} nb_select_park_t;

/* What has not made it ready cannot come after that, and the backend would report the hangup again
 * and again. */
static bool is_hung_up(const struct pollfd *fd)
{
    return fd->revents & (POLLHUP | POLLERR);
}

static VALUE park_body(VALUE argument)
{
    nb_select_park_t *wait = (nb_select_park_t *)argument;
    nb_select_t *select = wait->select;
    for (int i = 0; i < select->count; i++) {
        struct pollfd *fd = &select->fds[i];
        if (is_hung_up(fd)) {
            wait->hung_up++;
            continue;
        }
        nb_park_watch_init(&select->watches[i], &wait->park, fd->fd, nb_poll_mask(fd->events));
        int result = nb_fdtable_add(&select->loop->fds, &select->watches[i].watch);
        if (result < 0)
            rb_syserr_fail(-result, NULL);
        if (result > 0)
            return Qnil;
    }
    wait->park.watches = select->watches;
    wait->park.watch_count = select->count;
    nb_park_deadline(&wait->park, select->deadline);
    select->loop->external += wait->hung_up; /* waiting for nothing is not a deadlock */
    return INT2FIX(nb_park(&wait->park));
}

static VALUE park_leave(VALUE argument)
{
    nb_select_park_t *wait = (nb_select_park_t *)argument;
    nb_select_t *select = wait->select;
    for (int i = 0; i < select->count; i++)
        nb_fdtable_remove(&select->loop->fds, &select->watches[i].watch);
    if (wait->park.watches)
        select->loop->external -= wait->hung_up;
    return Qnil;
}

/* Parks until one of the watches fires. Returns false after the deadline. */
static bool park_all(nb_select_t *select)
{
    nb_select_park_t wait = {.select = select};
    memset(select->watches, 0, sizeof(*select->watches) * (size_t)select->count);
    nb_park_init(select->loop, &wait.park, NB_PARK_SELECT);
    wait.park.blocker = select->ios;
    select->loop->counters.io_waits++;
    VALUE reason = rb_ensure(park_body, (VALUE)&wait, park_leave, (VALUE)&wait);
    if (wait.park.mask & NB_CLOSED)
        rb_raise(rb_eIOError, "closed stream"); /* IO.select's own text */
    return reason != INT2FIX(NB_WOKEN_BY_TIMER);
}

/* From Ruby 4.0 on, infinity is no timeout. */
static bool is_forever(VALUE timeout)
{
    return NIL_P(timeout) || (RUBY_API_VERSION_CODE >= 40000 && RB_FLOAT_TYPE_P(timeout) &&
                              RFLOAT_VALUE(timeout) == HUGE_VAL);
}

/* @overload io_select(readable, writable = nil, exceptional = nil, timeout = nil)
 *   IO.select: any number of IOs, any fd number, buffered data seen.
 *   @param readable [Array<#to_io>, nil]
 *   @param timeout [Numeric, nil] seconds; 0 asks the kernel now
 *   @return [Array(Array, Array, Array), nil] the given objects that are ready; nil after timeout
 *   @raise [TypeError, IOError] as IO.select
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_select(int argc, VALUE *argv, VALUE self)
{
    rb_check_arity(argc, 1, 4);
    nb_select_t select = {.loop = nb_loop_get(self), .ios = rb_ary_new(), .deadline = NB_NEVER};
    long total = 0;
    for (int list = 0; list < 3; list++) {
        select.lists[list] = argc > list ? argv[list] : Qnil;
        if (NIL_P(select.lists[list]))
            continue;
        Check_Type(select.lists[list], T_ARRAY);
        select.lists[list] = rb_ary_dup(select.lists[list]);
        total += RARRAY_LEN(select.lists[list]);
    }
    if (argc > 3 && !is_forever(argv[3])) {
        rb_time_timespec_interval(argv[3]);
        uint64_t ns = nb_interval_ns(argv[3]);
        select.deadline = nb_loop_clock(select.loop) + ns;
        select.only_ask = !ns;
    }
    VALUE fds, watches;
    select.fds = ALLOCV_N(struct pollfd, fds, total + 1);
    select.watches = ALLOCV_N(nb_park_watch_t, watches, total + 1);
    convert(&select);
    nb_eager(select.loop);
    int ready = ask(&select);
    while (!ready && !select.buffered && !select.only_ask && park_all(&select))
        ready = ask(&select);
    VALUE result = ready || select.buffered ? results(&select) : Qnil;
    ALLOCV_END(fds);
    ALLOCV_END(watches);
    RB_GC_GUARD(select.ios);
    for (int list = 0; list < 3; list++)
        RB_GC_GUARD(select.lists[list]);
    return result;
}

void Init_nb_hooks_select(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_select", rb_nb_scheduler_io_select, -1);
}
