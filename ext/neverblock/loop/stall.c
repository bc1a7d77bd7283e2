/* stall.c - the words of a report on a loop that stood still. Pure C. Read after: stall.h.
 *
 * Runs on a thread that Ruby does not know. It uses no stdio, which an exiting process may have
 * locked.
 */
#include "loop/stall.h"
#include "base/clock.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#define PLACES 256
#define MINUTE_NS (60 * NB_NS_PER_S)
#define NS_PER_MS 1000000
#define OUR_HOOKS "NB::Scheduler#"

/* ---- what /proc tells of a thread ---------------------------------------------------------- */

#ifdef __linux__
static bool read_proc(pid_t tid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

nb_scheduled_t nb_stall_scheduled(pid_t tid)
{
    char text[96];
    unsigned long long ran_ns, queued_ns, runs;
    if (!read_proc(tid, "schedstat", text, sizeof(text)) ||
        sscanf(text, "%llu %llu %llu", &ran_ns, &queued_ns, &runs) != 3)
        return (nb_scheduled_t){0};
    return (nb_scheduled_t){.runs = runs, .queued_ns = queued_ns};
}

typedef struct {
    long number;
    const char *name;
    bool has_fd; /* as its first argument */
} syscall_t;

static const syscall_t calls[] = {
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_pread64, "pread", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_preadv2, "preadv2", true},
    {SYS_pwritev2, "pwritev2", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept4", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_ftruncate, "ftruncate", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_sendfile, "sendfile", true},
    {SYS_getdents64, "getdents", true},
    {SYS_openat, "open", false},
    {SYS_unlinkat, "unlink", false},
    {SYS_statx, "stat", false},
    {SYS_newfstatat, "stat", false},
    {SYS_clone, "clone", false},
    {SYS_brk, "brk, for memory", false},
    {SYS_mmap, "mmap, for memory", false},
    {SYS_munmap, "munmap, for memory", false},
    {SYS_madvise, "madvise, for memory", false},
    {SYS_mprotect, "mprotect, for memory", false},
    {SYS_mremap, "mremap, for memory", false},
#ifdef SYS_open
    {SYS_open, "open", false},
#endif
#ifdef SYS_poll
    {SYS_poll, "poll", false},
#endif
#ifdef SYS_select
    {SYS_select, "select", false},
#endif
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_epoll_pwait, "epoll_wait", true},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait", true},
#endif
};

static const syscall_t *find_call(long number)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

static void note_file(char *text, size_t size, unsigned fd)
{
    char path[32], target[256];
    snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    snprintf(text, size, " (fd %u%s%s)", fd, length > 0 ? ": " : "", target);
}

void nb_stall_note_wait(nb_stall_t *stall, pid_t tid)
{
    char text[256], file[320] = "";
    long number;
    unsigned long long first;
    stall->wait[0] = '\0';
    stall->runnable = stall->in_call = false;
    if (!read_proc(tid, "syscall", text, sizeof(text)))
        return;
    stall->runnable = !strncmp(text, "running", 7);
    if (sscanf(text, "%ld %llx", &number, &first) != 2 || number < 0)
        return;
    const syscall_t *call = find_call(number);
    stall->in_call = number != SYS_futex;
    if (number == SYS_futex) {
        snprintf(stall->wait, sizeof(stall->wait), "for another thread or a timer");
    } else if (!call) {
        snprintf(stall->wait, sizeof(stall->wait), "in the system call %ld", number);
    } else {
        if (call->has_fd)
            note_file(file, sizeof(file), (unsigned)first);
        snprintf(stall->wait, sizeof(stall->wait), "in the system call %s%s", call->name, file);
    }
}

#else
nb_scheduled_t nb_stall_scheduled(pid_t tid)
{
    (void)tid;
    return (nb_scheduled_t){0};
}

void nb_stall_note_wait(nb_stall_t *stall, pid_t tid)
{
    (void)tid;
    stall->wait[0] = '\0';
    stall->runnable = stall->in_call = false;
}
#endif

uint64_t nb_stall_queued_ns(nb_scheduled_t from, nb_scheduled_t to)
{
    return from.runs && to.queued_ns > from.queued_ns ? to.queued_ns - from.queued_ns : 0;
}

void nb_stall_extend(nb_stall_t *stall, uint64_t stood_ns)
{
    if (stall->stood_ns < stood_ns)
        stall->stood_ns = stood_ns;
}

/* ---- one report per place and minute ------------------------------------------------------- */

static struct {
    uint64_t hash, reported_ns;
    unsigned unreported;
} places[PLACES];

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037ull; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
    return hash ? hash : 1;
}

bool nb_stall_is_news(const nb_stall_t *stall, uint64_t now, unsigned *unreported)
{
    uint64_t hash = hash_of(stall->place);
    size_t found = 0; /* or the one reported longest ago */
    for (size_t i = 0; i < PLACES; i++) {
        if (places[i].hash == hash) {
            found = i;
            break;
        }
        if (places[i].reported_ns < places[found].reported_ns)
            found = i;
    }
    bool known = places[found].hash == hash;
    if (known && now < places[found].reported_ns + MINUTE_NS) {
        places[found].unreported++;
        return false;
    }
    *unreported = known ? places[found].unreported : 0;
    places[found].hash = hash;
    places[found].reported_ns = now;
    places[found].unreported = 0;
    return true;
}

void nb_stall_forget(void)
{
    memset(places, 0, sizeof(places));
}

/* ---- the sentence -------------------------------------------------------------------------- */

static bool waited(const nb_stall_t *stall)
{
    return stall->computed_ns * 2 <= stall->stood_ns;
}

/* The process collected when it was asked, but while it waited, that was another thread. */
static bool collected(const nb_stall_t *stall)
{
    return stall->collects && !(waited(stall) && stall->wait[0]);
}

/* Ruby code that was not seen in a system call computes, even if other threads, or other processes,
 * took most of the time. */
static bool computed(const nb_stall_t *stall)
{
    return !waited(stall) || (stall->in_ruby && !stall->wait[0]);
}

bool nb_stall_had_no_core(const nb_stall_t *stall)
{
    return stall->runnable && !stall->collects && !stall->place[0] && waited(stall);
}

/* Only by a futex. Where Ruby does not say so: who is in our own hooks, and not seen in another
 * system call (a disk may be slow), waits in the kernel, which is not standing still, or for the
 * GVL. */
bool nb_stall_waited_for_gvl(const nb_stall_t *stall)
{
    return !collected(stall) && !stall->in_call && waited(stall) &&
           (stall->wants_gvl || (stall->in_ruby && stall->wait[0]) ||
            !strncmp(stall->callee, OUR_HOOKS, sizeof(OUR_HOOKS) - 1));
}

void nb_stall_doing(const nb_stall_t *stall, char *text, size_t size)
{
    if (nb_stall_waited_for_gvl(stall))
        snprintf(text, size, "waits for the GVL, which other threads hold");
    else if (collected(stall))
        snprintf(text, size, "collects garbage");
    else if (computed(stall))
        snprintf(text, size, "computes");
    else
        snprintf(text, size, "waits outside the loop%s%s", stall->wait[0] ? ", " : "", stall->wait);
}

static const char *cure(const nb_stall_t *stall)
{
    if (nb_stall_waited_for_gvl(stall))
        return "NB.in_process { } for what they compute";
    if (collected(stall))
        return "Fewer objects at a time";
    return computed(stall) ? "NB.in_process { }" : "NB.offload { }";
}

/* "app.rb:12:in `name' (File#flock)" */
static void where(const nb_stall_t *stall, char *text, size_t size)
{
    bool named = stall->callee[0];
    snprintf(text, size, "%s%s%s%s", stall->place[0] ? stall->place : "an unknown place",
             named ? " (" : "", stall->callee, named ? ")" : "");
}

int nb_stall_text(const nb_stall_t *stall, unsigned unreported, char *text, size_t size)
{
    char doing[640], more[64] = "", place[700];
    where(stall, place, sizeof(place));
    nb_stall_doing(stall, doing, sizeof(doing));
    if (unreported)
        snprintf(more, sizeof(more), " (%u more there since the last report)", unreported);
    return snprintf(text, size,
                    "NeverBlock: the loop of pid %d has stood still for %llu ms at %s: it %s. %s "
                    "may help; see docs/TROUBLESHOOTING.md%s\n",
                    (int)getpid(), (unsigned long long)(stall->stood_ns / NS_PER_MS), place, doing,
                    cure(stall), more);
}

int nb_stall_end_text(const nb_stall_t *stall, char *text, size_t size)
{
    char place[700];
    where(stall, place, sizeof(place));
    return snprintf(text, size,
                    "NeverBlock: the loop of pid %d runs again: it stood still for %llu ms in "
                    "total at %s\n",
                    (int)getpid(), (unsigned long long)(stall->stood_ns / NS_PER_MS), place);
}
