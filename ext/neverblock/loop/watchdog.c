/* watchdog.c - notices a loop that stands still, and where. Uses ruby.h. Read after: watchdog.h,
 * incident.h.
 *
 * A thread that Ruby does not know looks at the counters of the process's loops, so the loops do
 * nothing for it, and it needs no GVL. While all of them sleep, it sleeps too, and the first that
 * wakes up rouses it: a process in which everybody waits uses no CPU. When a loop has not turned
 * for the limit, it asks where the loop's thread is (incident.c), and reports that when the loop
 * continues, or after another second.
 */
#include "loop/watchdog.h"
#include "base/condition.h"
#include "loop/gvl.h"
#include "loop/incident.h"
#include "loop/stall_counts.h"
#include "loop/place.h"
#include "loop/probe.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

atomic_bool nb_watchdog_sleeps;

#define REPORT_NS NB_NS_PER_S /* after the limit, of a loop that does not go on */
#define SOON_NS 5000000
#define STACK_SIZE (256 * 1024)

/* The list changes only while both the GVL and the lock are held. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t roused;
    nb_list_t loops;
    uint64_t limit_ns; /* 0: the watchdog is off */
    uint64_t last_ns;  /* when it last checked */
    uint64_t wake_ns;
    pid_t tid;
    bool runs;
    bool unsettled; /* incidents have ended, but are not reported */
} watchdog = {.loops = {&watchdog.loops, &watchdog.loops}};

static nb_loop_t *loop_at(nb_list_t *item)
{
    return nb_container_of(item, nb_loop_t, watched.link);
}

/* At the start, and in a forked child, whose one loop is added again. */
static void forget(void)
{
    pthread_mutex_init(&watchdog.lock, NULL);
    nb_condition_init(&watchdog.roused);
    watchdog.runs = false;
    watchdog.unsettled = false;
    atomic_store(&nb_watchdog_sleeps, false);
    while (!nb_list_empty(&watchdog.loops)) {
        loop_at(watchdog.loops.next)->watched.incident = NULL;
        nb_list_remove(watchdog.loops.next);
    }
    nb_probe_forget();
    nb_incidents_forget();
    nb_stall_forget();
    nb_stall_counts_forget();
}

static uint64_t progress_of(const nb_loop_t *loop)
{
    return __atomic_load_n(&loop->counters.turns, __ATOMIC_RELAXED) +
           __atomic_load_n(&loop->counters.switches, __ATOMIC_RELAXED);
}

static uint64_t cpu_ns(const nb_watched_t *watched)
{
    struct timespec time;
    if (clock_gettime(watched->cpu_clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * NB_NS_PER_S + (uint64_t)time.tv_nsec;
}

/* A single fiber holds up nobody. */
static bool may_stand(nb_loop_t *loop)
{
    return !atomic_load_explicit(&loop->asleep, memory_order_relaxed) && loop->fibers &&
           (loop->fibers > 1 || loop->fds.count > 1 || loop->timers.count) && !loop->guest.host &&
           !loop->virtual_ns;
}

/* It has stood since its last turn or since it woke up, but at most since we looked first. */
static void begin(nb_loop_t *loop, uint64_t now)
{
    nb_watched_t *watched = &loop->watched;
    uint64_t turned_ns = __atomic_load_n(&loop->now_ns, __ATOMIC_RELAXED);
    bool moved = watched->slept || watched->seen != progress_of(loop);
    watched->since_ns = !moved || turned_ns > now ? now : watchdog.last_ns;
    if (moved && turned_ns > watched->since_ns && turned_ns < now)
        watched->since_ns = turned_ns;
    watched->seen = progress_of(loop);
    if (watched->late_ns > now - watched->since_ns)
        watched->late_ns = now - watched->since_ns;
    watched->begun = false;
}

/* How long the loop has stood, in nanoseconds, without the time in which its thread had no core,
 * and without that in which the process did not run: then this thread was late, too. */
static uint64_t stood_ns(const nb_watched_t *watched, uint64_t now)
{
    uint64_t lost = nb_stall_queued_ns(watched->scheduled, nb_stall_scheduled(watched->tid));
    uint64_t stood = now > watched->since_ns ? now - watched->since_ns : 0;
    lost += watched->late_ns;
    return stood > lost ? stood - lost : 0;
}

/* What the thread has computed since it was noted; 0 if the kernel does not tell any more. */
static uint64_t computed_ns(const nb_watched_t *watched)
{
    uint64_t now = cpu_ns(watched);
    return now > watched->cpu_ns ? now - watched->cpu_ns : 0;
}

/* Returns whether it stood for the limit. */
static bool measure(const nb_loop_t *loop, uint64_t now)
{
    const nb_watched_t *watched = &loop->watched;
    nb_stall_t *stall = &watched->incident->stall;
    uint64_t computed = computed_ns(watched);
    nb_stall_extend(stall, stood_ns(watched, now));
    /* Watched only since begun_ns: before that, it is assumed to have done the same. */
    stall->computed_ns = computed + (watched->begun_ns - watched->since_ns) * computed /
                                        (now - watched->begun_ns + 1);
    return stall->stood_ns >= watchdog.limit_ns;
}

static void look_before(uint64_t wake_ns)
{
    if (wake_ns < watchdog.wake_ns)
        watchdog.wake_ns = wake_ns;
}

/* It has turned, or is gone. */
static void end(nb_loop_t *loop, uint64_t now)
{
    nb_incident_t *incident = loop->watched.incident;
    if (!incident)
        return;
    if (measure(loop, now))
        nb_incident_end(incident);
    else
        nb_incident_drop(incident);
    loop->watched.incident = NULL;
}

/* It has stood for longer than the limit. After the report, only its end is awaited. */
static void look_again(nb_loop_t *loop, uint64_t now, uint64_t stood)
{
    nb_incident_t *incident = loop->watched.incident;
    if (!incident) {
        loop->watched.incident = nb_incident_begin(loop, stood);
    } else if (stood < watchdog.limit_ns + REPORT_NS) {
        nb_incident_look(incident, loop, stood);
    } else if (measure(loop, now) && !nb_incident_tell(incident)) {
        /* All of that was no time to stand in. Later, it may stand for another reason. */
        loop->watched.incident = NULL;
        loop->watched.late_ns = now - loop->watched.since_ns;
        loop->watched.scheduled = nb_stall_scheduled(loop->watched.tid);
    }
    look_before(now + SOON_NS);
}

static void look_at(nb_loop_t *loop, uint64_t now, uint64_t late_ns)
{
    nb_watched_t *watched = &loop->watched;
    watched->late_ns += late_ns;
    bool asleep = atomic_load(&loop->asleep);
    watched->rests = asleep && watched->seen == progress_of(loop);
    if (!may_stand(loop) || watched->slept || watched->seen != progress_of(loop)) {
        end(loop, now);
        watched->late_ns = late_ns;
        begin(loop, now);
    }
    watched->slept = asleep;
    if (!may_stand(loop))
        return;
    if (!watched->begun) {
        watched->begun = true;
        watched->begun_ns = now;
        watched->cpu_ns = cpu_ns(watched);
        watched->scheduled = nb_stall_scheduled(watched->tid);
    }
    uint64_t limit_ns = watched->since_ns + watchdog.limit_ns;
    if (now < limit_ns) {
        look_before(limit_ns);
        return;
    }
    if (watched->incident && watched->incident->told)
        return;
    uint64_t stood = stood_ns(watched, now);
    if (stood >= watchdog.limit_ns)
        look_again(loop, now, stood);
    else
        look_before(now + watchdog.limit_ns - stood);
}

/* late_ns: as nap returns it. */
static void look(uint64_t now, uint64_t late_ns)
{
    uint64_t nap_ns = watchdog.limit_ns / 2;
    watchdog.wake_ns = now + (nap_ns > NB_LOOK_NS ? NB_LOOK_NS : nap_ns);
    for (nb_list_t *item = watchdog.loops.next; item != &watchdog.loops; item = item->next) {
        look_at(loop_at(item), now, late_ns);
    }
    watchdog.last_ns = now;
    watchdog.unsettled = nb_incidents_settle(false);
    if (watchdog.unsettled)
        look_before(now + SOON_NS);
}

/* Whether every loop has been asleep from one look to the next. */
static bool all_rest(void)
{
    for (nb_list_t *item = watchdog.loops.next; item != &watchdog.loops; item = item->next)
        if (!loop_at(item)->watched.rests || !atomic_load(&loop_at(item)->asleep))
            return false;
    return true;
}

/* Sleeps until a loop is added or wakes up, if there is nothing to look at before that. Returns
 * whether it slept. The loops begin anew then: while asleep, they did not stand. */
static bool sleep_too(void)
{
    if (watchdog.unsettled)
        return false;
    atomic_store(&nb_watchdog_sleeps, true); /* first: a loop that wakes up from now on says so */
    bool may = all_rest();
    if (may)
        nb_condition_wait(&watchdog.roused, &watchdog.lock, NB_NEVER);
    atomic_store(&nb_watchdog_sleeps, false);
    if (!may)
        return false;
    watchdog.last_ns = nb_clock_now();
    for (nb_list_t *item = watchdog.loops.next; item != &watchdog.loops; item = item->next)
        begin(loop_at(item), watchdog.last_ns);
    return true;
}

void nb_watchdog_rouse(void)
{
    if (!atomic_exchange(&nb_watchdog_sleeps, false))
        return;
    pthread_mutex_lock(&watchdog.lock);
    pthread_cond_signal(&watchdog.roused);
    pthread_mutex_unlock(&watchdog.lock);
}

/* Returns how late it ends: how long the process did not run, and perhaps the whole machine. That
 * this thread was asking when it should have woken up is not late, nor that it waited for a core:
 * on a busy machine it does, while a loop stands still. */
static uint64_t nap(void)
{
    uint64_t due_ns = nb_clock_now();
    if (due_ns < watchdog.wake_ns)
        due_ns = watchdog.wake_ns;
    if (sleep_too())
        return 0;
    nb_scheduled_t before = nb_stall_scheduled(watchdog.tid);
    nb_condition_wait(&watchdog.roused, &watchdog.lock, watchdog.wake_ns);
    uint64_t now = nb_clock_now();
    if (now <= due_ns + SOON_NS)
        return 0;
    uint64_t queued = nb_stall_queued_ns(before, nb_stall_scheduled(watchdog.tid));
    return now - due_ns > queued ? now - due_ns - queued : 0;
}

static void *watch(void *unused)
{
#ifdef __linux__
    prctl(PR_SET_NAME, "nb-watchdog", 0, 0, 0);
    watchdog.tid = (pid_t)syscall(SYS_gettid);
#endif
    pthread_mutex_lock(&watchdog.lock);
    watchdog.last_ns = nb_clock_now();
    for (uint64_t late_ns = 0;;) {
        look(nb_clock_now(), late_ns);
        late_ns = nap();
    }
    return NULL;
}

/* It gets no signal, and nobody waits for it. If there is no memory for it, nobody watches. */
static void start(void)
{
    sigset_t all, old;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    watchdog.runs = !pthread_create(&thread, &attributes, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

static bool note_thread(nb_watched_t *watched)
{
#if defined(HAVE_PTHREAD_GETCPUCLOCKID) && defined(__linux__)
    watched->thread = pthread_self();
    watched->wants_gvl = nb_gvl_wanted();
    watched->tid = (pid_t)syscall(SYS_gettid);
    return !pthread_getcpuclockid(watched->thread, &watched->cpu_clock);
#else
    return false;
#endif
}

void nb_watchdog_add(nb_loop_t *loop)
{
    nb_watchdog_remove(loop);
    pthread_mutex_lock(&watchdog.lock);
    if (watchdog.limit_ns && note_thread(&loop->watched)) {
        loop->watched.seen = progress_of(loop);
        loop->watched.slept = false; /* in a forked child it may be the parent's */
        begin(loop, nb_clock_now());
        nb_list_append(&watchdog.loops, &loop->watched.link);
        if (!watchdog.runs)
            start();
        pthread_cond_signal(&watchdog.roused);
    }
    pthread_mutex_unlock(&watchdog.lock);
}

/* The process may end next, so this is the last chance to report. */
void nb_watchdog_remove(nb_loop_t *loop)
{
    if (nb_list_empty(&loop->watched.link))
        return;
    if (!rb_during_gc())
        nb_probe_name();
    pthread_mutex_lock(&watchdog.lock);
    end(loop, nb_clock_now());
    nb_incidents_settle(true);
    nb_list_remove(&loop->watched.link);
    pthread_mutex_unlock(&watchdog.lock);
}

/* @!visibility private - watches loops, from the next one on. limit_ns: 0 for never. */
static VALUE rb_nb_native_watch(VALUE mod, VALUE limit_ns, VALUE libraries, VALUE ours)
{
    watchdog.limit_ns = NUM2ULL(limit_ns);
    nb_place_install(libraries, ours);
    if (!watchdog.limit_ns)
        return Qnil;
    nb_probe_install();
    nb_gvl_init();
    return Qnil;
}

static VALUE text_or_nil(const char *text)
{
    return text[0] ? rb_utf8_str_new_cstr(text) : Qnil;
}

static VALUE describe(const nb_stall_count_t *entry)
{
    uint64_t ago_ns = nb_clock_now() - entry->last_ns;
    return rb_assoc_new(rb_ary_new_from_args(3, text_or_nil(entry->place),
                                             text_or_nil(entry->callee), text_or_nil(entry->doing)),
                        rb_ary_new_from_args(3, ULL2NUM(entry->count),
                                             DBL2NUM((double)entry->longest_ns / 1e9),
                                             DBL2NUM((double)ago_ns / 1e9)));
}

/* @!visibility private - the stalls of this process by place: [[place or nil, method in C or nil,
 * what it did], [count, seconds of the longest, seconds since the last]] each. Any thread. */
static VALUE rb_nb_native_stalls(VALUE mod)
{
    VALUE all = rb_ary_new();
    nb_stall_count_t entry;
    for (size_t i = 0; i < NB_STALL_COUNTS_PLACES; i++)
        if (nb_stall_counts_copy(i, &entry))
            rb_ary_push(all, describe(&entry));
    return all;
}

void nb_watchdog_init(void)
{
    rb_define_singleton_method(rb_path2class("NB::Native"), "stalls", rb_nb_native_stalls, 0);
    rb_define_singleton_method(rb_path2class("NB::Native"), "watch", rb_nb_native_watch, 3);
    forget();
    pthread_atfork(NULL, NULL, forget);
}
