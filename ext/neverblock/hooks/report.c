/* report.c - the loop's counters and waits, for NB.stats and NB.dump. Uses ruby.h. */
#include "base/clock.h"
#include "hooks/early.h"
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

/* @overload stats
 *   The loop's counters since it was opened, and what it holds now.
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

/* @overload waits
 *   What every parked fiber waits for.
 *   @return [Array<Hash>] :fiber, :owner, :kind (Symbol), :ready (true: about to run), :blocker,
 *     :fds ([[fd, mask]]), :waited (seconds), :timeout (seconds left or nil)
 *   @scheduling never waits
 *   @thread any */
static VALUE rb_nb_scheduler_waits(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    VALUE fibers = rb_ary_new(), waits = rb_ary_new();
    uint64_t now = nb_loop_clock(loop);
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++)
        if (loop->parked.slots[i].value)
            rb_ary_push(fibers, (VALUE)loop->parked.slots[i].key);
    for (long i = 0; i < RARRAY_LEN(fibers); i++) {
        nb_park_t *park = nb_ptrmap_get(&loop->parked, RARRAY_AREF(fibers, i));
        if (park)
            rb_ary_push(waits, describe(park, now));
    }
    return waits;
}

/* @overload current
 *   The fiber that this loop runs now. An Enumerator or Fiber#resume in it runs in another fiber,
 *   this one tells on whose behalf.
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
    rb_define_method(cScheduler, "waits", rb_nb_scheduler_waits, 0);
    rb_define_method(cScheduler, "current", rb_nb_scheduler_current, 0);
    rb_define_method(cScheduler, "closed?", rb_nb_scheduler_closed_p, 0);
}
