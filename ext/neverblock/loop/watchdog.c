/* watchdog.c - notices a loop that stands still, and where. Uses ruby.h. Read after: watchdog.h.
 *
 * A thread of Ruby's (NB::Watchdog) looks at the loops' counters without the GVL, so the loops do
 * nothing for it. It takes the GVL only for a loop that stands still, for the backtrace: at once
 * from a system call, at the end of the time slice from Ruby code, after C code that keeps
 * the GVL, if the fiber does not wait in the loop before.
 */
#include "loop/watchdog.h"
#include <pthread.h>
#include <ruby/thread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAP_NS 25000000

/* The list changes only under the GVL and the lock together. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    nb_list_t loops;
    uint64_t limit_ns;
    bool stop;
} watchdog = {.loops = {&watchdog.loops, &watchdog.loops}};

static nb_loop_t *loop_at(nb_list_t *item)
{
    return nb_container_of(item, nb_loop_t, watched.link);
}

/* In the beginning, and in a forked child, whose one loop is added again. */
static void forget(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watchdog.lock, NULL);
    pthread_cond_init(&watchdog.stopped, &attributes);
    watchdog.stop = false;
    while (!nb_list_empty(&watchdog.loops))
        nb_list_remove(watchdog.loops.next);
}

static uint64_t progress_of(const nb_loop_t *loop)
{
    return __atomic_load_n(&loop->counters.turns, __ATOMIC_RELAXED) +
           __atomic_load_n(&loop->counters.switches, __ATOMIC_RELAXED);
}

/* How long the thread has waited for a core so far; 0 where the kernel does not tell. */
static uint64_t queued_ns(const nb_watched_t *watched)
{
    char path[64];
    unsigned long long run = 0, queued = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)watched->tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &run, &queued) != 2)
        queued = 0;
    fclose(file);
    return queued;
}

static uint64_t cpu_ns(const nb_watched_t *watched)
{
    struct timespec time;
    if (clock_gettime(watched->cpu_clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * NB_NS_PER_S + (uint64_t)time.tv_nsec;
}

static bool may_stand(nb_loop_t *loop)
{
    return !atomic_load_explicit(&loop->asleep, memory_order_relaxed) && loop->fibers &&
           !loop->guest.host && !loop->virtual_ns;
}

static void begin(nb_loop_t *loop, uint64_t now)
{
    nb_watched_t *watched = &loop->watched;
    watched->seen = progress_of(loop);
    watched->since_ns = now;
    watched->begun = watched->told = false;
}

/* Nanoseconds for which the loop stands, without those in which its thread had no core. */
static uint64_t stood_ns(const nb_watched_t *watched, uint64_t now)
{
    uint64_t queued = queued_ns(watched) - watched->queued_ns;
    uint64_t stood = now > watched->since_ns ? now - watched->since_ns : 0;
    return stood > queued ? stood - queued : 0;
}

static bool stands(nb_loop_t *loop, uint64_t now)
{
    nb_watched_t *watched = &loop->watched;
    if (!may_stand(loop) || watched->seen != progress_of(loop)) {
        begin(loop, now);
        return false;
    }
    if (!watched->begun) { /* most looks end before this: only a second one asks the kernel */
        watched->begun = true;
        watched->cpu_ns = cpu_ns(watched);
        watched->queued_ns = queued_ns(watched);
    }
    return !watched->told && now >= watched->since_ns + watchdog.limit_ns &&
           stood_ns(watched, now) >= watchdog.limit_ns;
}

/* late_ns: for so long this thread did not run, and perhaps the whole machine. */
static nb_loop_t *look(uint64_t now, uint64_t late_ns)
{
    nb_loop_t *found = NULL;
    for (nb_list_t *item = watchdog.loops.next; item != &watchdog.loops; item = item->next) {
        nb_loop_t *loop = loop_at(item);
        loop->watched.since_ns += late_ns;
        if (stands(loop, now) && !found)
            found = loop;
    }
    if (found)
        found->watched.told = true;
    return found;
}

static uint64_t nap(uint64_t now)
{
    uint64_t wake_ns = now + NAP_NS;
    struct timespec wake = {.tv_sec = (time_t)(wake_ns / NB_NS_PER_S),
                            .tv_nsec = (long)(wake_ns % NB_NS_PER_S)};
    pthread_cond_timedwait(&watchdog.stopped, &watchdog.lock, &wake);
    return nb_clock_now();
}

static void *watch(void *data)
{
    nb_loop_t **found = data;
    uint64_t now = nb_clock_now(), late_ns = 0;
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.stop && !(*found = look(now, late_ns))) {
        uint64_t before = now;
        now = nap(before);
        late_ns = now > before + 2 * NAP_NS ? now - before - NAP_NS : 0;
    }
    watchdog.stop = false;
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

static void stop(void *data)
{
    (void)data;
    pthread_mutex_lock(&watchdog.lock);
    watchdog.stop = true;
    pthread_cond_signal(&watchdog.stopped);
    pthread_mutex_unlock(&watchdog.lock);
}

/* Whether it is there still, and has not turned until this thread had the GVL. */
static bool still_stands(const nb_loop_t *found)
{
    bool result = false;
    pthread_mutex_lock(&watchdog.lock);
    for (nb_list_t *item = watchdog.loops.next; item != &watchdog.loops; item = item->next)
        if (loop_at(item) == found)
            result = may_stand(loop_at(item)) && found->watched.told &&
                     found->watched.seen == progress_of(found);
    pthread_mutex_unlock(&watchdog.lock);
    return result;
}

/* @!visibility private - waits until a loop stands still for that many nanoseconds. Returns the
 * backtrace of the fiber that runs, for how many seconds the loop stands, and how many of them its
 * thread computed; or nil to call again. Of the thread in NB::Watchdog. */
static VALUE rb_nb_native_watch(VALUE mod, VALUE limit_ns)
{
    nb_loop_t *found = NULL;
    watchdog.limit_ns = NUM2ULL(limit_ns);
    rb_nogvl(watch, &found, stop, NULL, 0);
    if (!found || !still_stands(found))
        return Qnil;
    uint64_t stood = stood_ns(&found->watched, nb_clock_now());
    uint64_t computed = cpu_ns(&found->watched) - found->watched.cpu_ns;
    VALUE frames = rb_funcall(found->thread, rb_intern("backtrace"), 0);
    return rb_ary_new_from_args(3, frames, DBL2NUM((double)stood / 1e9),
                                DBL2NUM((double)computed / 1e9));
}

void nb_watchdog_add(nb_loop_t *loop)
{
    nb_watchdog_remove(loop);
    pthread_mutex_lock(&watchdog.lock);
    loop->watched.tid = (pid_t)syscall(SYS_gettid);
    if (!pthread_getcpuclockid(pthread_self(), &loop->watched.cpu_clock)) {
        begin(loop, nb_clock_now());
        nb_list_append(&watchdog.loops, &loop->watched.link);
    }
    pthread_mutex_unlock(&watchdog.lock);
}

void nb_watchdog_remove(nb_loop_t *loop)
{
    pthread_mutex_lock(&watchdog.lock);
    nb_list_remove(&loop->watched.link);
    pthread_mutex_unlock(&watchdog.lock);
}

void nb_watchdog_init(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "watch", rb_nb_native_watch, 1);
    forget();
    pthread_atfork(NULL, NULL, forget);
}
