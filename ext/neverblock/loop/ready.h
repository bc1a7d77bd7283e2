/* ready.h - the ring of parks that may run. Pure C.
 *
 * A flat ring that only grows. An item taken out of the middle leaves a NULL that pop skips.
 */
#ifndef NB_READY_H
#define NB_READY_H

#include <errno.h>
#include <stdlib.h>

#define NB_READY_IDLE ((size_t)-1)

struct nb_park;

typedef struct {
    struct nb_park **items;
    size_t head, tail; /* free running from the middle, so that no place is NB_READY_IDLE;
                          tail - head = items, NULLs included */
    size_t mask;
    size_t count; /* without the NULLs */
} nb_ready_t;

/* Makes room for at least one more. Returns 0 or -ENOMEM with the ring unchanged. */
static inline int nb_ready_reserve(nb_ready_t *ring)
{
    if (ring->items && ring->tail - ring->head <= ring->mask)
        return 0;
    size_t capacity = ring->items ? (ring->mask + 1) * 2 : 256;
    struct nb_park **items = malloc(capacity * sizeof(*items));
    if (!items)
        return -ENOMEM;
    if (!ring->items)
        ring->head = ring->tail = NB_READY_IDLE / 2;
    for (size_t i = ring->head; i != ring->tail; i++)
        items[i & (capacity - 1)] = ring->items[i & ring->mask];
    free(ring->items);
    ring->items = items;
    ring->mask = capacity - 1;
    return 0;
}

/* Both return the place, valid until the item is popped. Called after nb_ready_reserve. */
static inline size_t nb_ready_push(nb_ready_t *ring, struct nb_park *park)
{
    ring->items[ring->tail & ring->mask] = park;
    ring->count++;
    return ring->tail++;
}

static inline size_t nb_ready_push_front(nb_ready_t *ring, struct nb_park *park)
{
    ring->items[--ring->head & ring->mask] = park;
    ring->count++;
    return ring->head;
}

static inline struct nb_park *nb_ready_pop(nb_ready_t *ring)
{
    while (ring->head != ring->tail) {
        struct nb_park *park = ring->items[ring->head++ & ring->mask];
        if (park) {
            ring->count--;
            return park;
        }
    }
    return NULL;
}

static inline void nb_ready_take_out(nb_ready_t *ring, size_t place)
{
    ring->items[place & ring->mask] = NULL;
    ring->count--;
}

#endif
