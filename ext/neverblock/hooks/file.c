/* file.c - fds that may be in blocking mode, and io_pread, io_pwrite. Uses ruby.h.
 *
 * Read after: file.h. */
#include "hooks/file.h"
#include "hooks/descriptor.h"
#include "hooks/hold_buffer.h"
#include "hooks/job.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <sys/socket.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

int ruby_thread_has_gvl_p(void); /* exported, in no public header */

#define CURRENT_POSITION ((off_t)-1)
#define INLINE_WRITE_BYTES (256 * 1024) /* into the page cache: about 50 us */

static mode_t kind_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_mode & S_IFMT : 0;
}

static bool is_file(int fd)
{
    return kind_of(fd) == S_IFREG;
}

/* ---- by an offload thread ------------------------------------------------------------------ */

typedef struct {
    nb_job_t job;
    int fd; /* a duplicate: ours may be closed and its number reused meanwhile */
    off_t from;
    bool writing;
    size_t size;
    ssize_t result;
    char bytes[];
} nb_file_job_t;

/* Returns bytes or -errno. */
static ssize_t move(int fd, void *bytes, size_t size, off_t from, bool writing)
{
    ssize_t count;
    do {
        if (from != CURRENT_POSITION)
            count = writing ? pwrite(fd, bytes, size, from) : pread(fd, bytes, size, from);
        else
            count = writing ? write(fd, bytes, size) : read(fd, bytes, size);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

static void run_file_job(nb_work_t *work)
{
    nb_file_job_t *file = nb_container_of(work, nb_file_job_t, job.work);
    file->result = move(file->fd, file->bytes, file->size, file->from, file->writing);
}

static void release_file_job(nb_job_t *job)
{
    nb_file_job_t *file = nb_container_of(job, nb_file_job_t, job);
    close(file->fd);
    free(file);
}

/* Whoever closes an fd of a file loses all locks of fcntl(2) that the process has on that file, and
 * the duplicate is closed. (The kernel tells a description that it calls a stranger to them.) */
static bool has_locks(int fd)
{
#ifdef F_OFD_GETLK
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
#else
    return false;
#endif
}

/* Returns bytes or -errno. A call for a disk that has begun cannot be ended, in plain Ruby either.
 * So an interrupted fiber waits for it: otherwise its bytes would come behind what the program
 * writes next. A call for a terminal may last forever. So the bytes go through the job's memory:
 * the caller's may be gone before the thread has finished. If fds or memory are short, the call is
 * made here: plain Ruby needs neither for it, so it must not fail for that. */
static ssize_t offload(nb_loop_t *loop, int fd, void *base, size_t size, off_t from, bool writing)
{
    nb_file_job_t *file = has_locks(fd) ? NULL : malloc(sizeof(*file) + size);
    int duplicate = file ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (duplicate < 0) {
        free(file);
        return move(fd, base, size, from, writing);
    }
    *file = (nb_file_job_t){.job = {.release = release_file_job, .may_linger = isatty(fd)},
                            .fd = duplicate,
                            .from = from,
                            .writing = writing,
                            .size = size};
    if (writing)
        memcpy(file->bytes, base, size);
    if (!nb_job_wait(loop, &file->job, run_file_job))
        run_file_job(&file->job.work); /* no thread is available: late is better than never */
    ssize_t result = file->result;
    if (!writing && result > 0)
        memcpy(base, file->bytes, (size_t)result);
    release_file_job(&file->job);
    return result;
}

/* ---- one attempt --------------------------------------------------------------------------- */

/* RWF_NOWAIT makes one call non-blocking without changing the file's mode. EOPNOTSUPP and the like:
 * this kind of file or kernel does not support it. */
static ssize_t now_or_not(int fd, void *base, size_t size, off_t from, bool writing)
{
#if defined(HAVE_PREADV2) && defined(RWF_NOWAIT)
    struct iovec vector = {base, size};
    ssize_t count = writing ? pwritev2(fd, &vector, 1, from, RWF_NOWAIT)
                            : preadv2(fd, &vector, 1, from, RWF_NOWAIT);
    if (count >= 0)
        return count;
    return errno == EINVAL || errno == ENOSYS || errno == EPERM ? -EOPNOTSUPP : -errno;
#else
    return -EOPNOTSUPP;
#endif
}

static bool is_open_for(int fd, int access)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == access;
}

int nb_file_patience(int fd)
{
    struct termios mode;
    if (tcgetattr(fd, &mode) || (mode.c_lflag & ICANON) || mode.c_cc[VMIN])
        return -1;
    return mode.c_cc[VTIME];
}

ssize_t nb_file_read(nb_loop_t *loop, int fd, void *base, size_t size)
{
    ssize_t count = now_or_not(fd, base, size, CURRENT_POSITION, false);
    if (count == -EAGAIN && is_file(fd))
        return offload(loop, fd, base, size, CURRENT_POSITION, false);
    if (count != -EOPNOTSUPP)
        return count;
    int ready = nb_poll_now(fd, NB_READABLE);
    if (!ready && is_open_for(fd, O_WRONLY)) /* it will never be ready */
        return -EBADF;
    if (ready <= 0)
        return ready ? ready : nb_file_patience(fd) < 0 ? -EAGAIN : NB_FILE_EMPTY;
    count = read(fd, base, size);
    return count < 0 ? -errno : count;
}

/* A writable terminal may have room for a single byte, and blocks until it has taken all. */
static bool may_block(int fd)
{
    return isatty(fd) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Of a pseudo-terminal, the side that controls it: the program's own, and not to be opened again,
 * which would make another. */
static bool is_controlling(int fd)
{
#ifdef TIOCGPTN
    unsigned number;
    return ioctl(fd, TIOCGPTN, &number) == 0;
#else
    return false;
#endif
}

/* The same terminal, opened once more as non-blocking: other programs have no part in this mode. */
static int open_again(int fd)
{
    char path[sizeof("/proc/self/fd/") + 3 * sizeof(fd)];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Without a thread where that is possible: its write cannot be ended by a close or a cancel. */
static ssize_t write_terminal(nb_loop_t *loop, int fd, const void *base, size_t size)
{
    bool mine = is_controlling(fd);
    int to = mine ? fd : open_again(fd);
    if (to < 0)
        return offload(loop, fd, (void *)base, size, CURRENT_POSITION, true);
    int flags = mine ? fcntl(fd, F_GETFL) : 0;
    if (mine)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    ssize_t count = write(to, base, size);
    if (count < 0)
        count = -errno;
    if (mine)
        (void)fcntl(fd, F_SETFL, flags);
    else
        close(to);
    return count;
}

/* What a poll has called writable. A blocking pipe takes PIPE_BUF bytes then without blocking, but
 * not certainly more; of a terminal's, a cancelled fiber leaves no more to be written later. */
static ssize_t write_ready(nb_loop_t *loop, int fd, const void *base, size_t size)
{
    mode_t kind = kind_of(fd);
    if (kind == S_IFSOCK) {
        ssize_t count = send(fd, base, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        return count < 0 ? -errno : count;
    }
    if (size > PIPE_BUF && kind != S_IFREG)
        size = PIPE_BUF;
    if (kind == S_IFCHR && may_block(fd))
        return write_terminal(loop, fd, base, size);
    ssize_t count = write(fd, base, size);
    return count < 0 ? -errno : count;
}

ssize_t nb_file_write(nb_loop_t *loop, int fd, const void *base, size_t size)
{
    if (size > INLINE_WRITE_BYTES && is_file(fd))
        return offload(loop, fd, (void *)base, size, CURRENT_POSITION, true);
    ssize_t count = now_or_not(fd, (void *)base, size, CURRENT_POSITION, true);
    if (count == -EAGAIN && is_file(fd))
        count = -EOPNOTSUPP;
    if (count != -EOPNOTSUPP)
        return count;
    int ready = nb_poll_now(fd, NB_WRITABLE);
    if (!ready && is_open_for(fd, O_RDONLY))
        return -EBADF;
    if (ready <= 0)
        return ready ? ready : -EAGAIN;
    return write_ready(loop, fd, base, size);
}

/* ---- io_pread, io_pwrite ------------------------------------------------------------------- */

#if !defined(RUBY_FIBER_SCHEDULER_VERSION) || RUBY_FIBER_SCHEDULER_VERSION < 2
enum { LENGTH_AT = 2, FROM_AT = 3, OFFSET_AT = 4 }; /* (io, buffer, length, from) */
#define LENGTH_IS_LEAST(writing) (!(writing))
#elif RUBY_FIBER_SCHEDULER_VERSION < 4
enum { FROM_AT = 2, LENGTH_AT = 3, OFFSET_AT = 4 };
#define LENGTH_IS_LEAST(writing) true
#else
enum { FROM_AT = 2, OFFSET_AT = 3, LENGTH_AT = 4 };
#define LENGTH_IS_LEAST(writing) false
#endif

typedef struct {
    nb_descriptor_t at;
    char *base;
    size_t size;
    size_t least; /* bytes, unless the file ends before */
    off_t from;
    bool writing;
} nb_positioned_t;

/* One attempt: how many bytes, or -errno. */
static ssize_t move_some(nb_positioned_t *move)
{
    nb_descriptor_t *at = &move->at;
    ssize_t count = now_or_not(at->fd, move->base, move->size, move->from, move->writing);
    if (count == -EAGAIN || count == -EOPNOTSUPP) {
        count = offload(at->loop, at->fd, move->base, move->size, move->from, move->writing);
        nb_descriptor_check(at);
    }
    return count;
}

static VALUE move_positioned(VALUE argument)
{
    nb_positioned_t *move = (nb_positioned_t *)argument;
    size_t moved = 0;
    nb_eager(move->at.loop);
    nb_descriptor_take(&move->at);
    for (;;) {
        ssize_t count = move_some(move);
        if (count < 0 && !moved)
            return SSIZET2NUM(count);
        if (count > 0)
            moved += (size_t)count;
        if (count <= 0 || moved >= move->least)
            return SIZET2NUM(moved);
        move->base += count;
        move->size -= (size_t)count;
        move->from += count;
    }
}

/* Ruby 3.3 and 3.4 come here without the GVL when our repair is off: nothing may park or raise. */
static VALUE move_without_gvl(const nb_positioned_t *move)
{
    int fd = rb_io_descriptor(move->at.io);
    ssize_t done = move->writing ? pwrite(fd, move->base, move->size, move->from)
                                 : pread(fd, move->base, move->size, move->from);
    return INT2FIX(done < 0 ? -errno : done);
}

static VALUE positioned(VALUE self, int argc, VALUE *argv, bool writing)
{
    rb_check_arity(argc, 4, 5);
    void *base;
    size_t size, length = NUM2SIZET(argv[LENGTH_AT]);
    size_t offset = argc > OFFSET_AT ? NUM2SIZET(argv[OFFSET_AT]) : 0;
    nb_positioned_t move = {.at.loop = nb_loop_get(self),
                            .at.io = nb_io_of(argv[0]),
                            .from = NUM2OFFT(argv[FROM_AT]),
                            .writing = writing};
    if (writing)
        rb_io_buffer_get_bytes_for_reading(argv[1], (const void **)&base, &size);
    else
        rb_io_buffer_get_bytes_for_writing(argv[1], &base, &size);
    nb_check_span(size, offset, length);
    move.base = (char *)base + offset;
    move.size = length && !LENGTH_IS_LEAST(writing) ? length : size - offset;
    move.least = LENGTH_IS_LEAST(writing) ? length : 0;
    if (move.from < 0) /* -1 would mean the current position to preadv2 */
        return INT2FIX(-EINVAL);
    if (!ruby_thread_has_gvl_p())
        return move_without_gvl(&move);
    VALUE result = nb_hold_buffer(argv[1], move_positioned, (VALUE)&move);
    RB_GC_GUARD(move.at.io);
    return result;
}

/* @overload io_pread(io, buffer, from, length, offset)
 *   Reads at a position; the order of arguments is that of the running Ruby.
 *   @return [Integer] bytes read or -errno
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_pread(int argc, VALUE *argv, VALUE self)
{
    return positioned(self, argc, argv, false);
}

/* @overload io_pwrite(io, buffer, from, length, offset)
 *   Writes at a position; the order of arguments is that of the running Ruby.
 *   @return [Integer] bytes written or -errno
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_io_pwrite(int argc, VALUE *argv, VALUE self)
{
    return positioned(self, argc, argv, true);
}

void Init_nb_hooks_file(VALUE cScheduler)
{
    rb_define_method(cScheduler, "io_pread", rb_nb_scheduler_io_pread, -1);
    rb_define_method(cScheduler, "io_pwrite", rb_nb_scheduler_io_pwrite, -1);
}
