/* chaos.c - faults and orders that a seed decides, compiled in for tests only. Uses ruby.h.
 * Read after: chaos.h, wait.h. */
#include "loop/chaos.h"
#include "loop/wait.h"
#include <ruby/thread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#ifdef NB_CHAOS
#define MOST_COLLECTIONS 60 /* in one process: they cost the most */
#define MOST_COMPACTIONS 20

/* The highest rates, of 65,536. */
static const unsigned rates[NB_CHAOS_SITES] = {
    [NB_CHAOS_ORDER] = 40000,    [NB_CHAOS_YIELD] = 30000,  [NB_CHAOS_POLL] = 12000,
    [NB_CHAOS_SPURIOUS] = 16000, [NB_CHAOS_SHORT] = 24000,  [NB_CHAOS_DRY] = 12000,
    [NB_CHAOS_EINTR] = 12000,    [NB_CHAOS_THREADS] = 6000, [NB_CHAOS_GC] = 400,
    [NB_CHAOS_COMPACT] = 160,
};

static struct {
    uint64_t seed;
    unsigned rate[NB_CHAOS_SITES];
    atomic_uint_fast64_t asked[NB_CHAOS_SITES + 1], happened[NB_CHAOS_SITES];
} chaos;

/* splitmix64 */
static uint64_t mix(uint64_t number)
{
    number += 0x9E3779B97F4A7C15u;
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
    number = (number ^ number >> 27) * 0x94D049BB133111EBu;
    return number ^ number >> 31;
}

static uint64_t draw(unsigned site, uint64_t time)
{
    return mix(chaos.seed ^ mix((uint64_t)site << 56 ^ time));
}

static void begin(uint64_t seed)
{
    memset(&chaos, 0, sizeof(chaos));
    chaos.seed = seed;
    for (unsigned site = 0; site < NB_CHAOS_SITES; site++) {
        uint64_t luck = draw(site, ~0ull);
        chaos.rate[site] = seed && luck % 3 ? rates[site] >> (luck >> 8) % 6 : 0;
    }
}

bool nb_chaos(nb_chaos_site_t site)
{
    if (!chaos.rate[site])
        return false;
    uint64_t time = atomic_fetch_add_explicit(&chaos.asked[site], 1, memory_order_relaxed);
    bool happens = (draw(site, time) & 0xFFFF) < chaos.rate[site];
    if (happens)
        atomic_fetch_add_explicit(&chaos.happened[site], 1, memory_order_relaxed);
    return happens;
}

size_t nb_chaos_pick(size_t limit)
{
    uint64_t time =
        atomic_fetch_add_explicit(&chaos.asked[NB_CHAOS_SITES], 1, memory_order_relaxed);
    return (size_t)(draw(NB_CHAOS_SITES, time) % limit);
}

size_t nb_chaos_size(size_t size)
{
    if (size < 2 || !nb_chaos(NB_CHAOS_SHORT))
        return size;
    return 1 + nb_chaos_pick(nb_chaos_pick(2) ? size : size < 8 ? size : 8);
}

static void *nap(void *unused)
{
    usleep(20);
    return NULL;
}

static bool happens_at_most(nb_chaos_site_t site, uint64_t times)
{
    return chaos.happened[site] < times && nb_chaos(site);
}

void nb_chaos_pause(nb_loop_t *loop)
{
    if (happens_at_most(NB_CHAOS_COMPACT, MOST_COMPACTIONS))
        rb_funcall(rb_mGC, rb_intern("compact"), 0);
    if (happens_at_most(NB_CHAOS_GC, MOST_COLLECTIONS))
        rb_gc_start();
    if (nb_chaos(NB_CHAOS_THREADS)) /* without a look at interrupts, which belong elsewhere */
        rb_nogvl(nap, NULL, NULL, NULL, RB_NOGVL_INTR_FAIL);
}

/* @!visibility private - starts again with a seed; 0: no faults. */
static VALUE rb_nb_native_chaos(VALUE mod, VALUE seed)
{
    begin(NUM2ULL(seed));
    return seed;
}

/* @!visibility private - how often each fault happened, by the order of nb_chaos_site_t. */
static VALUE rb_nb_native_chaos_counts(VALUE mod)
{
    VALUE counts = rb_ary_new();
    for (unsigned site = 0; site < NB_CHAOS_SITES; site++)
        rb_ary_push(counts, ULL2NUM(chaos.happened[site]));
    return counts;
}

void Init_nb_chaos(void)
{
    VALUE mNative = rb_path2class("NB::Native");
    rb_define_singleton_method(mNative, "chaos", rb_nb_native_chaos, 1);
    rb_define_singleton_method(mNative, "chaos_counts", rb_nb_native_chaos_counts, 0);
}
#endif
