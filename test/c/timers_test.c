/* timers_test.c - the heap against a sorted array, with random additions and removals. */
#include "loop/timers.h"
#include "base/clock.h"
#include "test.h"

#define MANY 2000

static nb_timers_t timers;
static uint64_t fired[MANY];
static size_t fired_count;

static void on_due(nb_timer_t *timer)
{
    fired[fired_count++] = timer->when_ns;
}

static nb_timer_t timer_at(uint64_t when_ns)
{
    return (nb_timer_t){.when_ns = when_ns, .index = NB_TIMER_IDLE, .on_due = on_due};
}

static void an_empty_heap_has_no_deadline(void)
{
    CHECK(nb_timers_next(&timers) == NB_NEVER);
    CHECK_EQ(0, nb_timers_expire(&timers, UINT64_MAX - 1));
}

static void timers_fire_in_order_and_never_early(void)
{
    static nb_timer_t many[MANY];
    fired_count = 0;
    srand(1);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = timer_at((uint64_t)(rand() % 5000) + 1);
        CHECK_EQ(0, nb_timers_add(&timers, &many[i]));
    }
    for (uint64_t now = 0; now <= 5000; now += 7) {
        size_t before = fired_count;
        nb_timers_expire(&timers, now);
        for (size_t i = before; i < fired_count; i++)
            CHECK(fired[i] <= now);
        CHECK(nb_timers_next(&timers) > now);
    }
    nb_timers_expire(&timers, 5000);
    CHECK_EQ(MANY, fired_count);
    for (size_t i = 1; i < fired_count; i++)
        CHECK(fired[i - 1] <= fired[i]);
}

static void removed_timers_never_fire(void)
{
    static nb_timer_t many[MANY];
    size_t kept = 0;
    fired_count = 0;
    srand(2);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = timer_at((uint64_t)rand() + 1);
        nb_timers_add(&timers, &many[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        if (rand() % 3 == 0) {
            nb_timers_remove(&timers, &many[i]);
            many[i].when_ns = 0; /* would be seen in `fired` */
        } else {
            kept++;
        }
    }
    nb_timers_remove(&timers, &many[0]); /* again: nothing happens */
    nb_timers_expire(&timers, UINT64_MAX - 1);
    for (size_t i = 0; i < fired_count; i++)
        CHECK(fired[i] != 0);
    CHECK(kept == fired_count || kept == fired_count + 1);
    CHECK_EQ(0, timers.count);
}

static nb_timer_t second;

static void add_another(nb_timer_t *timer)
{
    on_due(timer);
    nb_timers_add(&timers, &second);
}

static void a_timer_may_set_another_when_it_fires(void)
{
    nb_timer_t first = timer_at(10);
    first.on_due = add_another;
    second = timer_at(20);
    fired_count = 0;
    nb_timers_add(&timers, &first);
    CHECK_EQ(1, nb_timers_expire(&timers, 15));
    CHECK_EQ(1, nb_timers_expire(&timers, 20));
    CHECK_EQ(2, fired_count);
}

static void seconds_become_nanoseconds_rounded_up(void)
{
    CHECK_EQ(0, nb_clock_ns(0));
    CHECK_EQ(0, nb_clock_ns(-1));
    CHECK_EQ(0, nb_clock_ns(0.0 / 0.0));
    CHECK_EQ(1, nb_clock_ns(1e-10));
    CHECK_EQ(1500000000, nb_clock_ns(1.5));
    CHECK_EQ(INT64_MAX, nb_clock_ns(1e300));
}

int main(void)
{
    RUN(an_empty_heap_has_no_deadline);
    RUN(timers_fire_in_order_and_never_early);
    RUN(removed_timers_never_fire);
    RUN(a_timer_may_set_another_when_it_fires);
    RUN(seconds_become_nanoseconds_rounded_up);
    nb_timers_free(&timers);
    return test_report();
}
