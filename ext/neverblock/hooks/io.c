/* io.c - io_wait, io_read, io_write: the hot hooks. Ruby. Read after: wait.h, fdtable.h.
 *
 * Ruby's core calls io_read and io_write with length 0, which means one attempt, -EAGAIN when it
 * would block; it then calls io_wait, and the hook again. A longer length is a minimum (<= 4.0).
 * For stream sockets we wait here at once: their *_nonblock methods do not come this way, so every
 * caller would. That saves an IO::Buffer and two calls per read (8 % of an echo).
 */
#include "hooks/hooks.h"
#include "base/clock.h"
#include "hooks/file.h"
#include <errno.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <sys/socket.h>

enum { UNKNOWN = 0, STREAM_SOCKET = 1, OTHER = 2 };

/* ---- waiting for one fd -------------------------------------------------------------------- */

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
    if (park.mask & NB_CLOSED) /* whatever else woke it: the number may be another file's by now */
        rb_raise(rb_eIOError, "stream closed in another thread");
    return reason == NB_WOKEN ? park.mask & mask : 0;
}

/* TypeError for what is no IO, IOError for a closed one. */
static int descriptor_of(VALUE io)
{
    return rb_io_descriptor(RB_TYPE_P(io, T_FILE) ? io : rb_io_get_io(io));
}

/* What is known of the fd holds for this IO object only; another one may be another file. */
static nb_slot_t *slot_of(nb_loop_t *loop, int fd, VALUE io)
{
    nb_slot_t *slot = nb_fdtable_slot(&loop->fds, fd);
    if (!slot)
        rb_syserr_fail(fd < 0 ? EBADF : ENOMEM, NULL);
    if (slot->tag != io) {
        slot->tag = io;
        slot->dry = slot->stream = slot->misses = slot->doubtful = UNKNOWN;
    }
    return slot;
}

#ifdef HAVE_RB_IO_TIMEOUT
static VALUE timeout_of(VALUE io)
{
    return rb_io_timeout(io);
}
#else
static VALUE timeout_of(VALUE io)
{
    return Qnil;
}
#define rb_eIOTimeoutError rb_eIOError
#endif

/* @overload io_wait(io, events, timeout)
 *   Waits until io is ready for one of events.
 *   @param io [IO]
 *   @param events [Integer] IO::READABLE | IO::PRIORITY | IO::WRITABLE
 *   @param timeout [Numeric, nil] seconds; 0 asks the kernel now and tells the truth; nil:
 * IO#timeout
 *   @return [Integer, false] the events that are ready, false after the timeout
 *   @raise [IOError] when io is closed meanwhile
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout)
{
    nb_loop_t *loop = nb_loop_get(self);
    int mask = NUM2INT(events) & (NB_READABLE | NB_PRIORITY | NB_WRITABLE);
    if (!mask)
        rb_raise(rb_eArgError,
                 "io_wait: events must be of IO::READABLE | PRIORITY | WRITABLE, got: %" PRIsVALUE,
                 rb_inspect(events));
    int fd = descriptor_of(io);
    if (NIL_P(timeout))
        timeout = timeout_of(io);
    else
        nb_check_interval(timeout);
    uint64_t deadline = nb_deadline(timeout);
    bool only_ask = deadline != NB_NEVER && NUM2DBL(timeout) <= 0;
    nb_slot_t *slot = slot_of(loop, fd, io);
    bool guessed = slot->doubtful && mask == NB_READABLE;
    if (only_ask || (!guessed && (slot->dry & mask) != mask)) {
        nb_eager(loop);
        bool known = slot->registered;
        int ready = nb_poll_now(fd, mask);
        if (ready < 0)
            rb_syserr_fail(-ready, NULL);
        if (ready)
            return INT2FIX(ready);
        if (only_ask)
            return Qfalse;
        if (known && slot->registered)
            slot->dry |= (uint8_t)mask;
    }
    int ready = nb_wait_fd(loop, fd, mask, deadline);
    RB_GC_GUARD(io);
    return ready ? INT2FIX(ready) : Qfalse;
}

/* ---- reading and writing ------------------------------------------------------------------- */

typedef struct {
    nb_loop_t *loop;
    VALUE io;
    int fd;
    char *base; /* the memory from the offset on */
    size_t size, length;
} nb_transfer_t;

static void classify(nb_slot_t *slot, int fd)
{
    int type = 0;
    socklen_t length = sizeof(type);
    bool stream = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
    slot->stream = stream ? STREAM_SOCKET : OTHER;
}

/* An edge is certain to come after a dry spell only for a file the backend already watches; and a
 * short read of a stream means dry unless its end has been seen (epoll(7), "Questions", 9). */
static void note_dry(nb_slot_t *slot, ssize_t count, size_t size, int event)
{
    if (!slot->registered || slot->stream != STREAM_SOCKET)
        return;
    if (count == -EAGAIN || (count > 0 && (size_t)count < size && !slot->hung_up))
        slot->dry |= (uint8_t)event;
}

/* Where so many reads in a row found nothing, the next is not even tried: the fiber waits, and the
 * table looks again when no event has come after two turns. Saves one of five system calls of an
 * echo. */
#define MISSES 4

static bool likely_dry(nb_slot_t *slot)
{
    if (slot->dry & NB_READABLE)
        return true;
    if (slot->woken || slot->misses < MISSES || slot->hung_up)
        return false;
    slot->doubtful = 1;
    return true;
}

static void note_miss(nb_slot_t *slot, ssize_t count)
{
    if (count == -EAGAIN)
        slot->misses += slot->misses < MISSES;
    else if (!slot->woken)
        slot->misses = 0;
    slot->woken = 0;
}

static ssize_t read_some(nb_transfer_t *transfer)
{
    nb_slot_t *slot = slot_of(transfer->loop, transfer->fd, transfer->io);
    if (slot->stream == UNKNOWN && slot->registered)
        classify(slot, transfer->fd);
    if (slot->stream != STREAM_SOCKET)
        return nb_file_read(transfer->loop, transfer->fd, transfer->base, transfer->size);
    /* A socket's read_nonblock does not come here, so nobody is told EAGAIN who could mind. */
    if (likely_dry(slot))
        return -EAGAIN;
    ssize_t count = recv(transfer->fd, transfer->base, transfer->size, MSG_DONTWAIT);
    if (count < 0)
        count = -errno;
    note_dry(slot, count, transfer->size, NB_READABLE);
    note_miss(slot, count);
    return count;
}

static ssize_t write_some(nb_transfer_t *transfer)
{
    nb_slot_t *slot = slot_of(transfer->loop, transfer->fd, transfer->io);
    if (slot->stream == UNKNOWN && slot->registered)
        classify(slot, transfer->fd);
    if (slot->stream != STREAM_SOCKET)
        return nb_file_write(transfer->loop, transfer->fd, transfer->base, transfer->size);
    ssize_t count = send(transfer->fd, transfer->base, transfer->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0)
        count = -errno;
    note_dry(slot, count, transfer->size, NB_WRITABLE);
    return count;
}

static void await(nb_transfer_t *transfer, int event)
{
    VALUE timeout = timeout_of(transfer->io);
    if (!nb_wait_fd(transfer->loop, transfer->fd, event, nb_deadline(timeout)))
        rb_raise(rb_eIOTimeoutError, "Blocking operation timed out!");
}

static bool shall_wait(nb_transfer_t *transfer, size_t moved)
{
    if (moved)
        return moved < transfer->length;
#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
    return false; /* one attempt means one attempt */
#else
    nb_slot_t *slot = slot_of(transfer->loop, transfer->fd, transfer->io);
    if (slot->stream == UNKNOWN) /* the first time; found out again when the fd is watched */
        classify(slot, transfer->fd);
    return transfer->length || slot->stream == STREAM_SOCKET;
#endif
}

/* Moves bytes until length of them, at least one attempt. Returns how many, or -errno. */
static VALUE move_bytes(nb_transfer_t *transfer, ssize_t (*some)(nb_transfer_t *), int event)
{
    size_t moved = 0;
    nb_eager(transfer->loop);
    do {
        ssize_t count = some(transfer);
        if (count > 0) {
            moved += (size_t)count;
            transfer->base += count;
            transfer->size -= (size_t)count;
        } else if (count == -EAGAIN && shall_wait(transfer, moved)) {
            await(transfer, event);
        } else if (count != -EINTR) {
            if (count < 0 && !moved)
                return SSIZET2NUM(count);
            break;
        }
    } while (moved < transfer->length || (!moved && transfer->size));
    return SIZET2NUM(moved);
}

#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
enum { OFFSET_AT = 2, LENGTH_AT = 3 };
#else
enum { LENGTH_AT = 2, OFFSET_AT = 3 };
#endif

static nb_transfer_t transfer_of(VALUE self, int argc, VALUE *argv, bool writing)
{
    rb_check_arity(argc, 3, 4);
    nb_transfer_t transfer = {.loop = nb_loop_get(self), .io = argv[0]};
    void *base;
    size_t offset = argc > OFFSET_AT ? NUM2SIZET(argv[OFFSET_AT]) : 0;
    if (writing)
        rb_io_buffer_get_bytes_for_reading(argv[1], (const void **)&base, &transfer.size);
    else
        rb_io_buffer_get_bytes_for_writing(argv[1], &base, &transfer.size);
    transfer.length = NUM2SIZET(argv[LENGTH_AT]);
    if (offset > transfer.size || transfer.length > transfer.size - offset)
        rb_raise(rb_eArgError, "offset %zu and length %zu do not fit into a buffer of %zu bytes",
                 offset, transfer.length, transfer.size);
    transfer.base = (char *)base + offset;
    transfer.size -= offset;
#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
    transfer.size =
        transfer.length; /* from 4.1 on the length is a maximum, and one attempt is made */
    transfer.length = 0;
#endif
    transfer.fd = descriptor_of(transfer.io);
    return transfer;
}

/* @overload io_read(io, buffer, length, offset = 0)
 *   Reads into buffer: at least length bytes, or what one attempt gives when length is 0.
 *   @param buffer [IO::Buffer]
 *   @return [Integer] bytes read, 0 at the end, or -errno
 *   @raise [IO::TimeoutError] after IO#timeout
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_read(int argc, VALUE *argv, VALUE self)
{
    nb_transfer_t transfer = transfer_of(self, argc, argv, false);
    VALUE result = move_bytes(&transfer, read_some, NB_READABLE);
    RB_GC_GUARD(transfer.io);
    return result;
}

/* After IO#close_read of a two-way pipe Ruby names the IO object that it left without a descriptor;
 * undef lets it write by itself. */
static bool emptied(VALUE io)
{
#ifdef HAVE_RB_IO_CLOSED_P
    return RTEST(rb_io_closed_p(io));
#else
    return !RFILE(io)->fptr || RFILE(io)->fptr->fd < 0;
#endif
}

/* @overload io_write(io, buffer, length, offset = 0)
 *   Writes from buffer: at least length bytes, or what one attempt takes when length is 0.
 *   @param buffer [IO::Buffer]
 *   @return [Integer] bytes written, or -errno
 *   @raise [IO::TimeoutError] after IO#timeout
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_write(int argc, VALUE *argv, VALUE self)
{
    if (argc && RB_TYPE_P(argv[0], T_FILE) && emptied(argv[0]))
        return Qundef;
    nb_transfer_t transfer = transfer_of(self, argc, argv, true);
    if (!transfer.size) {
        errno = EINTR; /* Ruby < 3.3.1 takes 0 for an error and looks here (Bug #19640) */
        return INT2FIX(0);
    }
    VALUE result = move_bytes(&transfer, write_some, NB_WRITABLE);
    RB_GC_GUARD(transfer.io);
    return result;
}

/* @overload io_close(fd)
 *   Wakes who waits for the fd and closes it (called by Ruby >= 4.0).
 *   @param fd [Integer]
 *   @return [true]
 *   @scheduling never waits */
static VALUE rb_nb_scheduler_io_close(VALUE self, VALUE io)
{
    int fd = RB_INTEGER_TYPE_P(io) ? NUM2INT(io) : rb_io_descriptor(io);
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next)
        nb_fdtable_closing(&nb_container_of(item, nb_loop_t, link)->fds, fd);
    if (close(fd) < 0 && errno != EINTR)
        rb_syserr_fail(errno, NULL);
    return Qtrue;
}

void Init_nb_hooks_io(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_wait", rb_nb_scheduler_io_wait, 3);
    rb_define_method(cScheduler, "io_read", rb_nb_scheduler_io_read, -1);
    rb_define_method(cScheduler, "io_write", rb_nb_scheduler_io_write, -1);
    rb_define_method(cScheduler, "io_close", rb_nb_scheduler_io_close, 1);
    Init_nb_hooks_file(cScheduler);
}
