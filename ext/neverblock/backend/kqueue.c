/* kqueue.c - kqueue(2) of macOS and the BSDs, level-triggered. Pure C. Read after: backend.h,
 * poll.c.
 *
 * What is wanted of an fd is noted here and goes to the kernel with the next kevent(2) that waits,
 * so a wait costs no system call of its own. Only a filter that the kernel may not have yet is
 * added at once, to learn whether kqueue takes this kind of file. What it refuses is asked by
 * poll(2) instead, every 10 ms: some devices on macOS (/dev/tty), and out-of-band data where there
 * is no EVFILT_EXCEPT.
 *
 * The kernel drops the filters of an fd when it is closed, and does not tell. So a filter that
 * should be there is taken out and added again, whenever a watch changes.
 */
#include "backend/backend.h"

#ifdef NB_KQUEUE
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define CHANGES_PER_FILE 6        /* three filters, each taken out and added */
#define ASK_NS 10000000           /* how often poll(2) is asked */
#define LONGEST_NS 86400000000000 /* a day: some systems refuse a timeout of years */
#define ADDED 1                   /* udata of a change that adds: its error matters */
#define EVERYTHING (NB_READABLE | NB_PRIORITY | NB_WRITABLE | NB_HANGUP | NB_ENDED)

/* A filter of an fd. HANGUP is EVFILT_READ that bytes do not wake: only the end of them. */
enum { READ = 1, HANGUP = 2, WRITE = 4, EXCEPT = 8 };

typedef struct {
    uint32_t generation;
    uint8_t mask;  /* what is wanted */
    uint8_t known; /* the filters that the kernel was told of, unless the fd was closed since */
    bool changed;  /* it is in the list of those whose filters have to be told */
    bool polled;   /* kqueue refuses it: poll(2) is asked */
} file_t;

typedef struct {
    file_t *files; /* by fd */
    int *changed;  /* fds, as many as there are files */
    int file_count, changed_count, polled_count;
    nb_backend_t poll; /* of polled files */
    uint64_t alarm_ns; /* for a guest; NB_NEVER: not set */
    pid_t pid;         /* a forked child does not inherit the queue: its number is another file's */
    struct kevent changes[BATCH], events[BATCH];
} queue_t;

static void queue_close(nb_backend_t *backend)
{
    queue_t *queue = backend->state;
    if (!queue)
        return;
    if (backend->fd >= 0 && queue->pid == getpid())
        close(backend->fd);
    backend->fd = -1;
    nb_backend_poll.close(&queue->poll);
    free(queue->files);
    free(queue->changed);
    free(queue);
    backend->state = NULL;
}

static int queue_open(nb_backend_t *backend)
{
    backend->fd = -1;
    queue_t *queue = backend->state = calloc(1, sizeof(queue_t));
    if (!queue || nb_backend_poll.open(&queue->poll) < 0)
        return -ENOMEM;
    queue->pid = getpid();
    queue->alarm_ns = NB_NEVER;
    backend->fd = kqueue();
    if (backend->fd < 0)
        return -errno;
    fcntl(backend->fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

static int grow(queue_t *queue, int fd)
{
    int count = fd + 64;
    file_t *files = realloc(queue->files, (size_t)count * sizeof(*files));
    if (!files)
        return -ENOMEM;
    queue->files = files;
    int *changed = realloc(queue->changed, (size_t)count * sizeof(*changed));
    if (!changed)
        return -ENOMEM;
    queue->changed = changed;
    memset(files + queue->file_count, 0, (size_t)(count - queue->file_count) * sizeof(*files));
    queue->file_count = count;
    return 0;
}

/* ---- what the kernel is told ----------------------------------------------------------------- */

static int filters_of(const file_t *file)
{
    if (file->polled)
        return 0;
    return (file->mask & NB_READABLE ? READ
            : file->mask & NB_HANGUP ? HANGUP
                                     : 0) |
           (file->mask & NB_WRITABLE ? WRITE : 0) | (file->mask & NB_PRIORITY ? EXCEPT : 0);
}

/* Fills one change. filter: one of the bits above. */
static void change(struct kevent *event, int fd, int filter, bool add)
{
    int flags = add ? EV_ADD : EV_DELETE;
    unsigned fflags = 0;
    intptr_t data = 0;
    int16_t number = filter == WRITE ? EVFILT_WRITE : EVFILT_READ;
    if (filter == HANGUP) { /* no receive buffer holds so much; where one counts as full, once */
        flags |= EV_CLEAR;
        fflags = NOTE_LOWAT;
        data = INT_MAX;
    }
#ifdef EVFILT_EXCEPT
    if (filter == EXCEPT) {
        number = EVFILT_EXCEPT;
        fflags = NOTE_OOB;
    }
#endif
    EV_SET(event, (uintptr_t)fd, number, flags, fflags, data, (void *)(intptr_t)(add ? ADDED : 0));
}

/* Fills the changes that bring the kernel to what is wanted. Returns how many. A filter that stays
 * is made anew, too: it may be that of a closed file, and EV_ADD alone does not change EV_CLEAR. */
static int change_all(file_t *file, int fd, struct kevent *changes)
{
    int wanted = filters_of(file), count = 0;
    for (int filter = READ; filter <= EXCEPT; filter *= 2)
        if ((file->known | wanted) & filter)
            change(&changes[count++], fd, filter, false);
    for (int filter = READ; filter <= EXCEPT; filter *= 2)
        if (wanted & filter)
            change(&changes[count++], fd, filter, true);
    file->known = (uint8_t)wanted;
    return count;
}

static void note_changed(queue_t *queue, int fd)
{
    if (!queue->files[fd].changed)
        queue->changed[queue->changed_count++] = fd;
    queue->files[fd].changed = true;
}

/* Fills the changes of as many files as fit into room. Returns how many. */
static int take_changes(queue_t *queue, int room)
{
    int count = 0;
    while (queue->changed_count && count + CHANGES_PER_FILE <= room) {
        int fd = queue->changed[--queue->changed_count];
        queue->files[fd].changed = false;
        count += change_all(&queue->files[fd], fd, &queue->changes[count]);
    }
    return count;
}

/* Makes the changes and takes no event out. Returns an error of what was to be added, or 0. */
static int make(nb_backend_t *backend, struct kevent *changes, int count)
{
    struct timespec now = {0, 0};
    int error = 0;
    for (int i = 0; i < count; i++)
        changes[i].flags |= EV_RECEIPT;
    int got = kevent(backend->fd, changes, count, changes, count, &now);
    if (got < 0 && errno != EINTR)
        return -errno;
    for (int i = 0; i < got; i++)
        if ((intptr_t)changes[i].udata == ADDED && changes[i].data)
            error = (int)-changes[i].data;
    return error;
}

/* kqueue would tell once, or at the end of a file never, that it is readable. */
static int check_kind(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode) ? -EPERM
                                                                                         : 0;
}

/* On macOS the end of a named FIFO's last writer makes no event. */
static bool takes_badly(int fd, int filters)
{
    (void)fd;
#ifdef F_GETPATH
    char path[PATH_MAX];
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) && fcntl(fd, F_GETPATH, path) == 0)
        return true;
#endif
#ifndef EVFILT_EXCEPT
    return filters & EXCEPT;
#else
    (void)filters;
    return false;
#endif
}

static int set_polled(queue_t *queue, int fd, bool polled)
{
    file_t *file = &queue->files[fd];
    queue->polled_count += polled - file->polled;
    file->polled = polled;
    return nb_backend_poll.watch(&queue->poll, fd, file->generation, polled ? file->mask : 0);
}

/* Tells the kernel at once, and learns whether it takes this kind of file. */
static int add_now(nb_backend_t *backend, int fd)
{
    queue_t *queue = backend->state;
    file_t *file = &queue->files[fd];
    if (takes_badly(fd, filters_of(file)))
        return set_polled(queue, fd, true);
    struct kevent changes[CHANGES_PER_FILE];
    int result = make(backend, changes, change_all(file, fd, changes));
    if (!result || result == -EBADF || result == -ENOMEM)
        return result;
    note_changed(queue, fd);
    return set_polled(queue, fd, true);
}

/* The table counts a generation at each watch, and one more when it is told of a close. */
static int queue_watch(nb_backend_t *backend, int fd, uint32_t generation, int mask)
{
    queue_t *queue = backend->state;
    int result = fd < queue->file_count ? 0 : grow(queue, fd);
    if (result < 0)
        return result;
    file_t *file = &queue->files[fd];
    if (generation - file->generation > 1) {
        file->known = 0;
        if (file->polled)
            set_polled(queue, fd, false);
    }
    if (mask & ~file->mask) /* nobody may have told that the number is another file's by now */
        result = check_kind(fd);
    file->generation = generation;
    file->mask = (uint8_t)(result < 0 ? 0 : mask & ~NB_ONCE);
    if (result < 0)
        return result;
    if (file->polled)
        return set_polled(queue, fd, mask != 0);
    if (filters_of(file) & ~file->known)
        return add_now(backend, fd);
    if (file->known)
        note_changed(queue, fd);
    return 0;
}

/* ---- for a guest ----------------------------------------------------------------------------- */

static void queue_flush(nb_backend_t *backend)
{
    queue_t *queue = backend->state;
    while (queue->changed_count)
        make(backend, queue->changes, take_changes(queue, BATCH));
}

static int queue_alarm(nb_backend_t *backend, uint64_t when_ns)
{
    struct kevent event;
    ((queue_t *)backend->state)->alarm_ns = when_ns;
    EV_SET(&event, 0, EVFILT_TIMER, EV_DELETE, 0, 0, NULL);
    kevent(backend->fd, &event, 1, NULL, 0, NULL); /* ENOENT: there was none */
    if (when_ns == NB_NEVER)
        return 0;
    uint64_t now = nb_clock_now();
    int64_t ns = when_ns > now ? (int64_t)(when_ns - now) : 1;
    ns = ns > LONGEST_NS ? LONGEST_NS : ns;
#ifdef NOTE_NSECONDS
    EV_SET(&event, 0, EVFILT_TIMER, EV_ADD | EV_ONESHOT, NOTE_NSECONDS, (intptr_t)ns, NULL);
#else
    EV_SET(&event, 0, EVFILT_TIMER, EV_ADD | EV_ONESHOT, 0, (intptr_t)((ns + 999999) / 1000000),
           NULL);
#endif
    return kevent(backend->fd, &event, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

/* ---- what the kernel tells ------------------------------------------------------------------- */

static int mask_of(const struct kevent *event)
{
    bool ended = event->flags & EV_EOF;
    if (ended && event->fflags) /* an error, such as ECONNRESET */
        return EVERYTHING;
    if (event->filter == EVFILT_READ)
        return NB_READABLE | (ended ? NB_HANGUP : 0);
    return event->filter == EVFILT_WRITE ? NB_WRITABLE : NB_PRIORITY;
}

static int failed(nb_backend_t *backend, const struct kevent *event)
{
    int fd = (int)event->ident;
    file_t *file = &((queue_t *)backend->state)->files[fd];
    if (!event->data || (intptr_t)event->udata != ADDED || !file->mask)
        return 0;
    file->known = 0; /* a closed fd, or another kind of file under its number */
    return add_now(backend, fd) < 0 ? EVERYTHING : 0;
}

/* Returns what is to be reported of the event, or 0. */
static int heard(nb_backend_t *backend, const struct kevent *event)
{
    queue_t *queue = backend->state;
    if (event->flags & EV_ERROR)
        return failed(backend, event);
    if (event->filter == EVFILT_TIMER) {
        if (queue->alarm_ns != NB_NEVER && queue->alarm_ns > nb_clock_now())
            queue_alarm(backend, queue->alarm_ns); /* it was early */
        return 0;
    }
    file_t *file = &queue->files[event->ident];
    int mask = mask_of(event), wanted = filters_of(file);
    if (mask & (file->mask | NB_ENDED))
        return mask;
    if (event->filter != EVFILT_READ || !(wanted & HANGUP)) { /* nobody wants it: it goes */
        file->known |= event->filter == EVFILT_READ ? READ : WRITE;
        note_changed(queue, (int)event->ident);
    }
    return 0;
}

static struct timespec patience(const queue_t *queue, int64_t timeout_ns)
{
    int64_t ns = timeout_ns < 0 || timeout_ns > LONGEST_NS ? LONGEST_NS : timeout_ns;
    if (queue->polled_count && ns > ASK_NS)
        ns = ASK_NS;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

static int queue_wait(nb_backend_t *backend, nb_event_t *events, int capacity, int64_t timeout_ns)
{
    queue_t *queue = backend->state;
    int count = 0, room;
    do { /* each change may bring an error, for which there has to be room */
        room = capacity - count < BATCH ? capacity - count : BATCH;
        int changes = take_changes(queue, room);
        bool more = queue->changed_count || count;
        struct timespec timeout = patience(queue, more ? 0 : timeout_ns);
        int got = kevent(backend->fd, queue->changes, changes, queue->events, room, &timeout);
        if (got < 0 && errno != EINTR) /* after EINTR, the changes were made */
            return -errno;
        for (int i = 0; i < got; i++) {
            int fd = (int)queue->events[i].ident, mask = heard(backend, &queue->events[i]);
            if (mask)
                events[count++] = (nb_event_t){fd, queue->files[fd].generation, mask};
        }
    } while (queue->changed_count && capacity - count > CHANGES_PER_FILE);
    if (queue->polled_count && count < capacity) {
        int got = nb_backend_poll.wait(&queue->poll, events + count, capacity - count, 0);
        count += got > 0 ? got : 0;
    }
    return count;
}

const nb_backend_ops_t nb_backend_kqueue = {
    .name = "kqueue",
    .edge = false,
    .open = queue_open,
    .close = queue_close,
    .watch = queue_watch,
    .wait = queue_wait,
    .flush = queue_flush,
    .alarm = queue_alarm,
};
#endif
