/* containers_test.c - the pointer map and the ready ring against plain arrays. */
#include "base/list.h"
#include "base/ptrmap.h"
#include "loop/ready.h"
#include "test.h"

#define KEYS 512

static void the_map_agrees_with_an_array(void)
{
    static void *expected[KEYS];
    nb_ptrmap_t map = {0};
    srand(3);
    for (int step = 0; step < 200000; step++) {
        size_t key = (size_t)rand() % KEYS;
        if (expected[key]) {
            nb_ptrmap_remove(&map, (key + 1) * 40);
            expected[key] = NULL;
        } else {
            expected[key] = &expected[key];
            CHECK_EQ(0, nb_ptrmap_add(&map, (key + 1) * 40, expected[key]));
        }
        size_t look = (size_t)rand() % KEYS;
        CHECK(nb_ptrmap_get(&map, (look + 1) * 40) == expected[look]);
    }
    size_t left = 0;
    for (size_t key = 0; key < KEYS; key++) {
        left += expected[key] != NULL;
        CHECK(nb_ptrmap_get(&map, (key + 1) * 40) == expected[key]);
    }
    CHECK_EQ(left, map.count);
    nb_ptrmap_remove(&map, 7); /* absent: nothing happens */
    CHECK_EQ(left, map.count);
    nb_ptrmap_free(&map);
    CHECK(nb_ptrmap_get(&map, 40) == NULL);
}

static void the_map_gives_back_what_a_key_had(void)
{
    nb_ptrmap_t map = {0};
    int outer, inner;
    CHECK_EQ(0, nb_ptrmap_reserve(&map));
    CHECK(nb_ptrmap_put(&map, 40, &outer) == NULL);
    CHECK(nb_ptrmap_put(&map, 40, &inner) == &outer);
    CHECK(nb_ptrmap_get(&map, 40) == &inner);
    CHECK_EQ(1, map.count);
    nb_ptrmap_remove(&map, 40);
    CHECK(nb_ptrmap_get(&map, 40) == NULL);
    CHECK_EQ(0, map.count);
    nb_ptrmap_free(&map);
}

static void the_map_forgets_the_keys_that_left(void)
{
    nb_ptrmap_t map = {0};
    int value;
    for (size_t key = 1; key <= 10000; key++) {
        CHECK_EQ(0, nb_ptrmap_add(&map, key * 40, &value));
        nb_ptrmap_remove(&map, key * 40);
        nb_ptrmap_remove(&map, key * 40); /* again: nothing happens */
        CHECK_EQ(0, map.count);
        CHECK(map.used * 2 <= map.mask + 1);
    }
    CHECK_EQ(64, map.mask + 1);
    nb_ptrmap_free(&map);
}

static struct nb_park *item(size_t number)
{
    return (struct nb_park *)(uintptr_t)(number + 1);
}

static void the_ring_keeps_order_and_skips_what_left(void)
{
    nb_ready_t ring = {0};
    size_t places[1000];
    CHECK(nb_ready_pop(&ring) == NULL);
    CHECK_EQ(0, nb_ready_reserve(&ring));
    for (int i = 0; i < 3; i++) /* in front of all that ever was */
        CHECK(nb_ready_push_front(&ring, item(i)) != NB_READY_IDLE);
    for (int i = 2; i >= 0; i--)
        CHECK(nb_ready_pop(&ring) == item(i));
    for (size_t i = 0; i < 1000; i++) {
        CHECK_EQ(0, nb_ready_reserve(&ring));
        places[i] = nb_ready_push(&ring, item(i));
    }
    for (size_t i = 0; i < 1000; i += 3)
        nb_ready_take_out(&ring, places[i]);
    CHECK_EQ(666, ring.count);
    nb_ready_reserve(&ring);
    nb_ready_push_front(&ring, item(5000));
    CHECK(nb_ready_pop(&ring) == item(5000));
    for (size_t i = 0; i < 1000; i++)
        if (i % 3)
            CHECK(nb_ready_pop(&ring) == item(i));
    CHECK(nb_ready_pop(&ring) == NULL);
    CHECK_EQ(0, ring.count);
    free(ring.items);
}

static void the_ring_grows_while_it_turns(void)
{
    nb_ready_t ring = {0};
    size_t in = 0, out = 0;
    srand(4);
    for (int step = 0; step < 20000; step++) {
        for (int n = rand() % 5; n > 0; n--) {
            nb_ready_reserve(&ring);
            nb_ready_push(&ring, item(in++));
        }
        for (int n = rand() % 4; n > 0 && out < in; n--)
            CHECK(nb_ready_pop(&ring) == item(out++));
    }
    while (out < in)
        CHECK(nb_ready_pop(&ring) == item(out++));
    CHECK(nb_ready_pop(&ring) == NULL);
    free(ring.items);
}

static void a_list_item_may_be_removed_twice(void)
{
    nb_list_t list, one, two;
    nb_list_init(&list);
    nb_list_append(&list, &one);
    nb_list_append(&list, &two);
    nb_list_remove(&one);
    nb_list_remove(&one);
    CHECK(list.next == &two && two.next == &list);
    nb_list_remove(&two);
    CHECK(nb_list_empty(&list));
}

int main(void)
{
    RUN(the_map_agrees_with_an_array);
    RUN(the_map_gives_back_what_a_key_had);
    RUN(the_map_forgets_the_keys_that_left);
    RUN(the_ring_keeps_order_and_skips_what_left);
    RUN(the_ring_grows_while_it_turns);
    RUN(a_list_item_may_be_removed_twice);
    return test_report();
}
