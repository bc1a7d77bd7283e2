/* report.c - the loop's counters and waits, for NB.stats and NB.dump. Uses ruby.h. */
#include "base/clock.h"
#include "hooks/early_unblock.h"
#include "hooks/hooks.h"
#include "offload/pool.h"

static const char *const kinds[] = {"io",      "select",  "sleep", "block",   "process",
                                    "resolve", "offload", "yield", "handoff", "run",
                                    "start",   "idle",    "spawn"};

void nb_set_count(VALUE hash, const char *key, uint64_t value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(key)), ULL2NUM(value));
}

static void set_seconds(VALUE hash, const char *key, uint64_t ns)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(key)), DBL2NUM((double)ns / 1e9));
}

/* Since when it has not asked the kernel; 0 while it waits there. */
static uint64_t turning_ns(nb_loop_t *loop)
{
    uint64_t now = nb_clock_now();
    if (loop->virtual_ns || !loop->now_ns || now < loop->now_ns ||
        atomic_load_explicit(&loop->asleep, memory_order_relaxed))
        return 0;
    return now - loop->now_ns;
}

/* @overload stats
 *   The loop's counters since it was opened, and its present contents.
 *   @return [Hash{Symbol => Integer, Float, String}] counts; seconds as Float
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_stats(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    nb_counters_t *counters = &loop->counters;
    VALUE hash = rb_hash_new();
    int threads, queued;
    nb_offload_counts(&threads, &queued);
    rb_hash_aset(hash, ID2SYM(rb_intern("backend")),
                 loop->fds.backend.ops ? rb_utf8_str_new_cstr(loop->fds.backend.ops->name) : Qnil);
    nb_set_count(hash, "fibers", loop->fibers);
    nb_set_count(hash, "idle_fibers", loop->idle_fibers);
    nb_set_count(hash, "parked", loop->parked.count);
    nb_set_count(hash, "ready", loop->ready.count);
    nb_set_count(hash, "timers", loop->timers.count);
    nb_set_count(hash, "watches", loop->fds.count ? loop->fds.count - 1 : 0);
    nb_set_count(hash, "switches", counters->switches);
    nb_set_count(hash, "polls", counters->turns);
    nb_set_count(hash, "sleeps", counters->sleeps);
    nb_set_count(hash, "events", counters->events);
    nb_set_count(hash, "io_waits", counters->io_waits);
    nb_set_count(hash, "sleep_waits", counters->sleep_waits);
    nb_set_count(hash, "block_waits", counters->block_waits);
    nb_set_count(hash, "resolves", counters->resolves);
    nb_set_count(hash, "offloads", counters->offloads);
    nb_set_count(hash, "offload_threads", (uint64_t)threads);
    nb_set_count(hash, "offload_queued", (uint64_t)queued);
    nb_set_count(hash, "interrupts", counters->cancels);
    nb_set_count(hash, "timers_fired", counters->timers_fired);
    set_seconds(hash, "lag_max", counters->lag_max_ns);
    set_seconds(hash, "lag_mean",
                counters->lag_count ? counters->lag_sum_ns / counters->lag_count : 0);
    set_seconds(hash, "lag_sum", counters->lag_sum_ns);
    nb_set_count(hash, "lag_count", counters->lag_count);
    set_seconds(hash, "turning", turning_ns(loop));
    return hash;
}

static VALUE fds_of(const nb_park_t *park)
{
    VALUE fds = rb_ary_new();
    for (int i = 0; i < park->watch_count; i++)
        rb_ary_push(fds, rb_assoc_new(INT2FIX(park->watches[i].watch.fd),
                                      INT2FIX(park->watches[i].watch.mask)));
    return fds;
}

static VALUE describe(const nb_park_t *park, uint64_t now)
{
    VALUE hash = rb_hash_new();
    rb_hash_aset(hash, ID2SYM(rb_intern("fiber")), park->fiber);
    rb_hash_aset(hash, ID2SYM(rb_intern("owner")), park->owner);
    rb_hash_aset(hash, ID2SYM(rb_intern("kind")), ID2SYM(rb_intern(kinds[park->kind])));
    rb_hash_aset(hash, ID2SYM(rb_intern("ready")), park->state == NB_READY ? Qtrue : Qfalse);
    rb_hash_aset(hash, ID2SYM(rb_intern("blocker")),
                 park->blocker && !nb_is_hidden(park->blocker) ? park->blocker : Qnil);
    rb_hash_aset(hash, ID2SYM(rb_intern("fds")), fds_of(park));
    set_seconds(hash, "waited", now > park->since_ns ? now - park->since_ns : 0);
    rb_hash_aset(hash, ID2SYM(rb_intern("timeout")),
                 park->timer.index == NB_TIMER_IDLE
                     ? Qnil
                     : DBL2NUM(((double)park->timer.when_ns - (double)now) / 1e9));
    return hash;
}

/* A fiber in the list, and its position. */
typedef struct {
    VALUE fiber;
    uint64_t since_ns;
    bool asked; /* by name: before all others */
} told_t;

static int earlier(const void *one, const void *two)
{
    const told_t *a = one, *b = two;
    if (a->asked != b->asked)
        return a->asked ? -1 : 1;
    return (a->since_ns > b->since_ns) - (a->since_ns < b->since_ns);
}

/* Fibers that rest in a server's pool are of no interest. */
static size_t choose(nb_loop_t *loop, told_t *told, VALUE asked, bool all)
{
    size_t count = 0;
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (park && (all || park->kind != NB_PARK_IDLE))
            told[count++] = (told_t){park->fiber, park->since_ns,
                                     rb_hash_lookup2(asked, park->owner, Qfalse) != Qfalse};
    }
    if (!all)
        qsort(told, count, sizeof(*told), earlier);
    return count;
}

static VALUE describe_all(nb_loop_t *loop, VALUE fibers)
{
    VALUE waits = rb_ary_new();
    uint64_t now = nb_loop_clock(loop);
    for (long i = 0; i < RARRAY_LEN(fibers); i++) {
        nb_park_t *park = nb_ptrmap_get(&loop->parked, RARRAY_AREF(fibers, i));
        if (park)
            rb_ary_push(waits, describe(park, now));
    }
    return waits;
}

/* @overload waits(most = nil, asked = {})
 *   What every parked fiber waits for.
 *   @param most [Integer, nil] the maximum number: those of asked, then the longest waits; fibers
 *     that rest in a server's pool are left out. nil: all, in no order
 *   @param asked [Hash{Fiber => Object}] compared by identity: scheduled fibers to list first
 *   @return [Array<Hash>] :fiber, :owner, :kind (Symbol), :ready (true: about to run), :blocker,
 *     :fds ([[fd, mask]]), :waited (seconds), :timeout (seconds left or nil)
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_waits(int argc, VALUE *argv, VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    rb_check_arity(argc, 0, 2);
    bool all = argc == 0 || NIL_P(argv[0]);
    size_t most = all ? SIZE_MAX : NUM2SIZET(argv[0]);
    VALUE asked = argc > 1 ? rb_convert_type(argv[1], T_HASH, "Hash", "to_hash") : rb_hash_new();
    size_t capacity = loop->parked.count; /* after the conversions, in which others may park */
    VALUE memory = rb_str_buf_new((long)((capacity + 1) * sizeof(told_t)));
    told_t *told = (told_t *)RSTRING_PTR(memory);
    /* Allocated before the fibers are looked up, because the collector may move them. */
    VALUE fibers = rb_ary_new_capa((long)(most < capacity ? most : capacity));
    size_t count = choose(loop, told, asked, all);
    for (size_t i = 0; i < count && i < most; i++)
        rb_ary_push(fibers, told[i].fiber);
    RB_GC_GUARD(memory);
    return describe_all(loop, fibers);
}

/* @overload parked
 *   How many fibers are parked: ready to continue, and by what they wait for.
 *   @return [Hash{Symbol => Integer}] :ready, and the kinds of {#waits}
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_parked(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    uint64_t counts[sizeof(kinds) / sizeof(*kinds)] = {0}, ready = 0;
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        if (park && park->state == NB_READY)
            ready++;
        else if (park)
            counts[park->kind]++;
    }
    VALUE hash = rb_hash_new();
    nb_set_count(hash, "ready", ready);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        nb_set_count(hash, kinds[i], counts[i]);
    return hash;
}

/* @overload current
 *   The fiber that this loop runs now. An Enumerator or Fiber#resume inside it runs in another
 *   fiber; this one shows on whose behalf.
 *   @return [Fiber, nil] nil before the first switch
 *   @scheduling never waits */
static VALUE rb_nb_scheduler_current(VALUE self)
{
    VALUE current = nb_loop_any(self)->current;
    return current ? current : Qnil;
}

/* @overload closed?
 *   @return [Boolean] whether the scheduler has been closed
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_closed_p(VALUE self)
{
    return nb_loop_any(self)->closed ? Qtrue : Qfalse;
}

void Init_nb_hooks_report(VALUE cScheduler)
{
    rb_define_method(cScheduler, "stats", rb_nb_scheduler_stats, 0);
    rb_define_method(cScheduler, "waits", rb_nb_scheduler_waits, -1);
    rb_define_method(cScheduler, "parked", rb_nb_scheduler_parked, 0);
    rb_define_method(cScheduler, "current", rb_nb_scheduler_current, 0);
    rb_define_method(cScheduler, "closed?", rb_nb_scheduler_closed_p, 0);
}
