/* timers.h - a heap of deadlines. Pure C: no Ruby types, no allocation after the heap has grown.
 *
 * Four children per node: half the depth of a binary heap, and the children share cache lines.
 * Read after: clock.h.
 */
#ifndef NB_TIMERS_H
#define NB_TIMERS_H

#include <stddef.h>
#include <stdint.h>

/* One deadline. It lives inside the wait it belongs to; the heap only points at it. */
typedef struct nb_timer {
    uint64_t when_ns;                  /* CLOCK_MONOTONIC, nanoseconds */
    size_t index;                      /* place in the heap; NB_TIMER_IDLE when not in it */
    void (*on_due)(struct nb_timer *); /* called once, already out of the heap; must not raise */
} nb_timer_t;

#define NB_TIMER_IDLE ((size_t)-1)

typedef struct {
    struct nb_timer_entry
        *items; /* the deadline is copied beside the pointer: sifting stays in cache */
    size_t count, capacity;
} nb_timers_t;

/* Puts the timer in the heap. O(log n).
 * timer - index == NB_TIMER_IDLE, when_ns and on_due set
 * Returns 0, or -ENOMEM with the heap unchanged. */
int nb_timers_add(nb_timers_t *timers, nb_timer_t *timer);

/* Takes the timer out, if it is in. O(log n): a true removal, nothing stale stays behind. */
void nb_timers_remove(nb_timers_t *timers, nb_timer_t *timer);

/* The earliest deadline, NB_NEVER when there is none. */
uint64_t nb_timers_next(const nb_timers_t *timers);

/* Takes out every timer that is due at now_ns, and calls their on_due in order of deadline. Returns
 * how many. */
size_t nb_timers_expire(nb_timers_t *timers, uint64_t now_ns);

/* The timer at a position below timers->count, in no particular order: for looking through all. */
nb_timer_t *nb_timers_at(const nb_timers_t *timers, size_t place);

void nb_timers_free(nb_timers_t *timers);

#endif
