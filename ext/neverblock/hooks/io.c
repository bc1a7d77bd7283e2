/* io.c - io_read, io_write: the hot hooks. Uses ruby.h. Read after: wait.h, fdtable.h.
 *
 * Ruby's core calls io_read and io_write with length 0, which means one attempt and -EAGAIN if it
 * would block; then it calls io_wait, and the hook again. A longer length is a minimum (<= 4.0).
 * For stream sockets we wait here at once: their *_nonblock methods do not use these hooks, so
 * every caller would wait. That saves an IO::Buffer and two calls per read (8 % of an echo).
 */
#include "hooks/hooks.h"
#include "base/clock.h"
#include "base/portable.h"
#include "hooks/descriptor.h"
#include "hooks/file.h"
#include "hooks/hold_buffer.h"
#include "hooks/io_timeout.h"
#include <errno.h>
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <sys/socket.h>

enum { UNKNOWN = 0, STREAM_SOCKET = 1, OTHER = 2 };

typedef struct nb_transfer {
    nb_descriptor_t at;
    char *base; /* the memory from the offset on */
    size_t size, length;
    ssize_t (*some)(struct nb_transfer *); /* one attempt: how many bytes, or -errno */
    ssize_t count;                         /* its last result; -EINTR: none yet */
    int event;
} nb_transfer_t;

/* A plain IO over a socket (standard input of a service, IO.for_fd) is no stream here: its
 * read_nonblock does use this hook, and must get EAGAIN if, and only if, that is true. */
static void classify(nb_slot_t *slot, const nb_descriptor_t *at)
{
    int type = 0;
    socklen_t length = sizeof(type);
    bool stream = nb_io_is_socket(at->io) &&
                  getsockopt(at->fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
                  type == SOCK_STREAM;
    slot->stream = stream ? STREAM_SOCKET : OTHER;
}

/* After a dry spell, an edge is certain to come only for a file that the backend already watches.
 * And a short read of a stream means dry unless its end has been seen (epoll(7), "Questions",
 * 9). */
static void note_dry(nb_slot_t *slot, ssize_t count, size_t size, int event)
{
    if (!slot->registered || slot->stream != STREAM_SOCKET)
        return;
    if (count == -EAGAIN || (count > 0 && (size_t)count < size && !slot->hung_up))
        slot->dry |= (uint8_t)event;
}

/* After this many reads in a row that found nothing, the next is not even tried: the fiber waits,
 * and the table checks again if no event has come after two turns. This saves one of five system
 * calls of an echo. */
#define MISSES 4

static bool likely_dry(nb_slot_t *slot)
{
    if (slot->dry & NB_READABLE)
        return true;
    if (slot->woken || slot->misses < MISSES || slot->hung_up)
        return false;
    slot->unverified = 1;
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

static nb_slot_t *classified(const nb_descriptor_t *at)
{
    nb_slot_t *slot = nb_descriptor_slot(at);
    if (slot->stream == UNKNOWN && slot->registered)
        classify(slot, at);
    return slot;
}

/* dup2(2) has put another kind of file behind the number without telling anyone. */
static bool is_stale(nb_slot_t *slot, ssize_t count)
{
    if (count != -ENOTSOCK)
        return false;
    slot->dry = slot->misses = slot->unverified = 0;
    slot->stream = OTHER;
    return true;
}

/* A terminal whose reads end without bytes, at once or after some tenths of a second (VMIN 0, as
 * IO#getch and IO#raw set it with `min: 0`): no poller ever calls it readable then. */
static ssize_t read_terminal(nb_transfer_t *transfer)
{
    nb_descriptor_t *at = &transfer->at;
    int tenths = nb_file_patience(at->fd);
    if (tenths < 0) /* no longer ready */
        return -EINTR;
    uint64_t deadline = nb_deadline(at->loop, DBL2NUM(tenths / 10.0));
    if (!tenths || !nb_wait_fd(at->loop, at->fd, NB_READABLE, deadline))
        return 0;
    nb_descriptor_check(at);
    ssize_t count = nb_file_read(at->loop, at->fd, transfer->base, transfer->size);
    return count == NB_FILE_EMPTY ? 0 : count;
}

static ssize_t read_some(nb_transfer_t *transfer)
{
    nb_descriptor_t *at = &transfer->at;
    nb_slot_t *slot = classified(at);
    if (slot->stream == STREAM_SOCKET) {
        /* A socket's read_nonblock does not come here, so nobody needs EAGAIN. */
        if (likely_dry(slot))
            return -EAGAIN;
        if (nb_chaos(NB_CHAOS_DRY))
            return -EAGAIN;
        size_t size = nb_chaos_size(transfer->size);
        ssize_t count = recv(at->fd, transfer->base, size, MSG_DONTWAIT);
        if (count < 0)
            count = -errno;
        note_dry(slot, count, size, NB_READABLE);
        note_miss(slot, count);
        return is_stale(slot, count) ? -EINTR : count;
    }
    ssize_t count = nb_file_read(at->loop, at->fd, transfer->base, transfer->size);
    if (count == NB_FILE_EMPTY)
        count = read_terminal(transfer);
    nb_descriptor_check(at);
    return count;
}

static ssize_t write_some(nb_transfer_t *transfer)
{
    nb_descriptor_t *at = &transfer->at;
    nb_slot_t *slot = classified(at);
    if (slot->stream == STREAM_SOCKET) {
        if (nb_chaos(NB_CHAOS_DRY))
            return -EAGAIN;
        size_t size = nb_chaos_size(transfer->size);
        ssize_t count = send(at->fd, transfer->base, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0)
            count = -errno;
        note_dry(slot, count, size, NB_WRITABLE);
        return is_stale(slot, count) ? -EINTR : count;
    }
    ssize_t count = nb_file_write(at->loop, at->fd, transfer->base, transfer->size);
    nb_descriptor_check(at);
    return count;
}

static void await(nb_transfer_t *transfer)
{
    nb_descriptor_t *at = &transfer->at;
    VALUE timeout = nb_io_timeout(at->io);
    uint64_t deadline = nb_deadline(at->loop, timeout);
    if (nb_chaos(NB_CHAOS_SPURIOUS))
        return;
    if (!NIL_P(timeout)) /* it may be an object whose methods were asked */
        nb_descriptor_check(at);
    if (!nb_wait_fd(at->loop, at->fd, transfer->event, deadline))
        nb_io_timeout_raise();
    nb_descriptor_check(at);
}

/* IO#readpartial and IO#sysread wait for what is not there. Only during the hook does Ruby keep
 * others from the String that they read into. */
static bool is_for_a_string(const nb_transfer_t *transfer)
{
    VALUE frame = transfer->event == NB_READABLE ? nb_caller_frame() : Qnil;
    VALUE name = NIL_P(frame) ? Qnil : rb_profile_frame_qualified_method_name(frame);
    return !NIL_P(name) && (!strcmp(StringValueCStr(name), "IO#readpartial") ||
                            !strcmp(StringValueCStr(name), "IO#sysread"));
}

static bool shall_wait(nb_transfer_t *transfer, size_t moved)
{
    if (moved)
        return moved < transfer->length;
#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
    return false; /* one attempt means one attempt */
#else
    nb_slot_t *slot = nb_descriptor_slot(&transfer->at);
    if (slot->stream == UNKNOWN) /* the first time; found out again when the fd is watched */
        classify(slot, &transfer->at);
    return transfer->length || slot->stream == STREAM_SOCKET || is_for_a_string(transfer);
#endif
}

/* Moves bytes until length of them. Returns how many, or -errno. */
static VALUE move_bytes(VALUE argument)
{
    nb_transfer_t *transfer = (nb_transfer_t *)argument;
    size_t moved = 0;
    for (;; transfer->count = transfer->some(transfer)) {
        ssize_t count = transfer->count;
        if (count > 0) {
            moved += (size_t)count;
            transfer->base += count;
            transfer->size -= (size_t)count;
        } else if (count == -EAGAIN && shall_wait(transfer, moved)) {
            await(transfer);
        } else if (count != -EINTR) {
            return count < 0 && !moved ? SSIZET2NUM(count) : SIZET2NUM(moved);
        }
        if (moved >= transfer->length && (moved || !transfer->size))
            return SIZET2NUM(moved);
    }
}

/* The first attempt with a stream socket lets nobody run. If it suffices, as it mostly does, nobody
 * has to be kept from the buffer. */
static VALUE transfer_bytes(nb_transfer_t *transfer, VALUE buffer)
{
    nb_descriptor_take(&transfer->at);
    if (nb_descriptor_slot(&transfer->at)->stream == STREAM_SOCKET) {
        transfer->count = transfer->some(transfer);
        if (transfer->count > 0 && (size_t)transfer->count >= transfer->length)
            return SSIZET2NUM(transfer->count);
    }
    VALUE result = nb_hold_buffer(buffer, move_bytes, (VALUE)transfer);
    RB_GC_GUARD(transfer->at.io);
    return result;
}

#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
enum { OFFSET_AT = 2, LENGTH_AT = 3 };
#else
enum { LENGTH_AT = 2, OFFSET_AT = 3 };
#endif

static nb_transfer_t transfer_of(VALUE self, int argc, VALUE *argv, bool writing)
{
    rb_check_arity(argc, 3, 4);
    nb_transfer_t transfer = {.at = {.loop = nb_loop_get(self), .io = nb_io_of(argv[0])},
                              .count = -EINTR};
    void *base;
    nb_eager(transfer.at.loop); /* before the buffer is looked at: others may change it */
    size_t offset = argc > OFFSET_AT ? NUM2SIZET(argv[OFFSET_AT]) : 0;
    transfer.length = NUM2SIZET(argv[LENGTH_AT]);
    if (writing) {
        transfer.some = write_some;
        transfer.event = NB_WRITABLE;
        rb_io_buffer_get_bytes_for_reading(argv[1], (const void **)&base, &transfer.size);
    } else {
        transfer.some = read_some;
        transfer.event = NB_READABLE;
        rb_io_buffer_get_bytes_for_writing(argv[1], &base, &transfer.size);
    }
    nb_check_span(transfer.size, offset, transfer.length);
    transfer.base = (char *)base + offset;
    transfer.size -= offset;
#if defined(RUBY_FIBER_SCHEDULER_VERSION) && RUBY_FIBER_SCHEDULER_VERSION >= 4
    transfer.size =
        transfer.length; /* from 4.1 on the length is a maximum, and one attempt is made */
    transfer.length = 0;
#endif
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
    return transfer_bytes(&transfer, argv[1]);
}

/* @overload io_write(io, buffer, length, offset = 0)
 *   Writes from buffer: at least length bytes, or what one attempt takes when length is 0.
 *   @param buffer [IO::Buffer]
 *   @return [Integer] bytes written, or -errno
 *   @raise [IO::TimeoutError] after IO#timeout
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_write(int argc, VALUE *argv, VALUE self)
{
    /* After IO#close_read of a two-way pipe, Ruby passes the IO object that it left without a
     * descriptor; undef makes Ruby write by itself. */
    if (argc && RB_TYPE_P(argv[0], T_FILE) && nb_io_is_closed(argv[0]))
        return nb_called_by_ruby() ? INT2FIX(-EBADF) : Qundef;
    nb_transfer_t transfer = transfer_of(self, argc, argv, true);
    if (!transfer.size) {
        errno = EINTR; /* Ruby < 3.3.1 takes 0 for an error and looks here (Bug #19640) */
        return INT2FIX(0);
    }
    return transfer_bytes(&transfer, argv[1]);
}

void Init_nb_hooks_io(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_read", rb_nb_scheduler_io_read, -1);
    rb_define_method(cScheduler, "io_write", rb_nb_scheduler_io_write, -1);
    Init_nb_hooks_descriptor(cScheduler);
    Init_nb_hooks_file(cScheduler);
}
