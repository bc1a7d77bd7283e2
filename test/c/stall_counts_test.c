/* stall_counts_test.c - the stalls of a process, by place. */
#include "loop/stall_counts.h"
#include "base/clock.h"
#include "test.h"
#include <pthread.h>

static void stall(const char *place, uint64_t ms, uint64_t now)
{
    nb_stall_t stall = {.stood_ns = ms * 1000000, .computed_ns = ms * 1000000};
    snprintf(stall.place, sizeof(stall.place), "%s", place);
    nb_stall_counts_add(&stall, now);
}

static bool find(const char *place, nb_stall_count_t *entry)
{
    for (size_t i = 0; i < NB_STALL_COUNTS_PLACES; i++)
        if (nb_stall_counts_copy(i, entry) && !strcmp(entry->place, place))
            return true;
    return false;
}

static size_t size(void)
{
    nb_stall_count_t entry;
    size_t count = 0;
    for (size_t i = 0; i < NB_STALL_COUNTS_PLACES; i++)
        count += nb_stall_counts_copy(i, &entry);
    return count;
}

static void a_place_is_counted_with_its_longest_and_last(void)
{
    nb_stall_count_t entry;
    nb_stall_counts_forget();
    CHECK_EQ(0, size());
    stall("a.rb:1", 200, 10);
    stall("a.rb:1", 700, 20);
    stall("a.rb:1", 300, 30);
    stall("", 100, 40);
    CHECK_EQ(2, size());
    CHECK(find("a.rb:1", &entry));
    CHECK_EQ(3, entry.count);
    CHECK_EQ(700000000, entry.longest_ns);
    CHECK_EQ(30, entry.last_ns);
    CHECK(!strcmp("computes", entry.doing));
    CHECK(find("", &entry));
}

static void a_stall_that_goes_on_is_longer_not_another(void)
{
    nb_stall_count_t entry;
    nb_stall_t longer = {.stood_ns = 30 * NB_NS_PER_S, .place = "a.rb:1"};
    nb_stall_counts_forget();
    stall("a.rb:1", 1100, 10);
    nb_stall_counts_extend(&longer, 20);
    CHECK(find("a.rb:1", &entry));
    CHECK_EQ(1, entry.count);
    CHECK_EQ(30 * NB_NS_PER_S, entry.longest_ns);
    CHECK_EQ(20, entry.last_ns);
    strcpy(longer.place, "forgotten.rb:1");
    nb_stall_counts_extend(&longer, 30);
    CHECK_EQ(1, size());
}

static void waits_for_the_gvl_have_one_place(void)
{
    nb_stall_count_t entry;
    nb_stall_t stall = {.stood_ns = 200, .by_others = true, .place = "a.rb:1", .callee = "A#b"};
    nb_stall_counts_forget();
    nb_stall_counts_add(&stall, 10);
    strcpy(stall.place, "a.rb:2");
    nb_stall_counts_add(&stall, 20);
    stall.stood_ns = 300;
    nb_stall_counts_extend(&stall, 30);
    CHECK_EQ(1, size());
    CHECK(find(NB_STALL_COUNTS_GVL, &entry));
    CHECK_EQ(2, entry.count);
    CHECK_EQ(300, entry.longest_ns);
    CHECK(!entry.callee[0]);
}

static void of_many_places_the_oldest_is_forgotten(void)
{
    char name[32];
    nb_stall_count_t entry;
    nb_stall_counts_forget();
    for (unsigned i = 0; i < NB_STALL_COUNTS_PLACES; i++) {
        snprintf(name, sizeof(name), "a.rb:%u", i);
        stall(name, 100, 100 + i);
    }
    stall("a.rb:0", 100, 500);
    stall("b.rb:1", 100, 501);
    CHECK_EQ(NB_STALL_COUNTS_PLACES, size());
    CHECK(find("b.rb:1", &entry));
    CHECK_EQ(1, entry.count);
    CHECK(find("a.rb:0", &entry));
    CHECK(!find("a.rb:1", &entry));
}

static void *add_many(void *place)
{
    for (uint64_t i = 1; i <= 10000; i++)
        stall(place, 100, i);
    return NULL;
}

static void threads_may_add_and_read_at_once(void)
{
    pthread_t one, two;
    nb_stall_count_t entry;
    nb_stall_counts_forget();
    pthread_create(&one, NULL, add_many, "one");
    pthread_create(&two, NULL, add_many, "two");
    for (int i = 0; i < 1000; i++)
        if (nb_stall_counts_copy((size_t)i % 2, &entry))
            CHECK(!strcmp(entry.place, "one") || !strcmp(entry.place, "two"));
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    CHECK(find("one", &entry) && entry.count == 10000);
    CHECK(find("two", &entry) && entry.count == 10000);
}

int main(void)
{
    RUN(a_place_is_counted_with_its_longest_and_last);
    RUN(a_stall_that_goes_on_is_longer_not_another);
    RUN(waits_for_the_gvl_have_one_place);
    RUN(of_many_places_the_oldest_is_forgotten);
    RUN(threads_may_add_and_read_at_once);
    return test_report();
}
