/* timers.c - a 4-ary min-heap whose items know their place. Pure C. Read after: timers.h. */
#include "loop/timers.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>

struct nb_timer_entry {
    uint64_t when_ns;
    nb_timer_t *timer;
};

static void place(nb_timers_t *timers, size_t index, struct nb_timer_entry entry)
{
    timers->items[index] = entry;
    entry.timer->index = index;
}

static void sift_up(nb_timers_t *timers, size_t index, struct nb_timer_entry entry)
{
    while (index > 0) {
        size_t parent = (index - 1) / 4;
        if (timers->items[parent].when_ns <= entry.when_ns)
            break;
        place(timers, index, timers->items[parent]);
        index = parent;
    }
    place(timers, index, entry);
}

static void sift_down(nb_timers_t *timers, size_t index, struct nb_timer_entry entry)
{
    for (;;) {
        size_t first = index * 4 + 1, best = first;
        if (first >= timers->count)
            break;
        size_t last = first + 4 < timers->count ? first + 4 : timers->count;
        for (size_t child = first + 1; child < last; child++)
            if (timers->items[child].when_ns < timers->items[best].when_ns)
                best = child;
        if (timers->items[best].when_ns >= entry.when_ns)
            break;
        place(timers, index, timers->items[best]);
        index = best;
    }
    place(timers, index, entry);
}

int nb_timers_add(nb_timers_t *timers, nb_timer_t *timer)
{
    if (timers->count == timers->capacity) {
        size_t capacity = timers->capacity ? timers->capacity * 2 : 64;
        void *items = realloc(timers->items, capacity * sizeof(struct nb_timer_entry));
        if (!items)
            return -ENOMEM;
        timers->items = items;
        timers->capacity = capacity;
    }
    sift_up(timers, timers->count++, (struct nb_timer_entry){timer->when_ns, timer});
    return 0;
}

void nb_timers_remove(nb_timers_t *timers, nb_timer_t *timer)
{
    size_t index = timer->index;
    if (index == NB_TIMER_IDLE)
        return;
    timer->index = NB_TIMER_IDLE;
    struct nb_timer_entry last = timers->items[--timers->count];
    if (last.timer == timer)
        return;
    if (index > 0 && timers->items[(index - 1) / 4].when_ns > last.when_ns)
        sift_up(timers, index, last);
    else
        sift_down(timers, index, last);
}

uint64_t nb_timers_next(const nb_timers_t *timers)
{
    return timers->count ? timers->items[0].when_ns : NB_NEVER;
}

size_t nb_timers_expire(nb_timers_t *timers, uint64_t now_ns)
{
    size_t expired = 0;
    while (timers->count && timers->items[0].when_ns <= now_ns) {
        nb_timer_t *timer = timers->items[0].timer;
        nb_timers_remove(timers, timer);
        timer->on_due(timer);
        expired++;
    }
    return expired;
}

nb_timer_t *nb_timers_at(const nb_timers_t *timers, size_t place)
{
    return timers->items[place].timer;
}

void nb_timers_free(nb_timers_t *timers)
{
    for (size_t i = 0; i < timers->count; i++)
        timers->items[i].timer->index = NB_TIMER_IDLE;
    free(timers->items);
    *timers = (nb_timers_t){0};
}
