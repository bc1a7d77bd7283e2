/* ptrmap.h - pointer -> pointer, open addressing. Pure C.
 *
 * Finds the wait of a fiber in about 5 ns; a Ruby Hash or st_table costs ten times as much and
 * allocates. Keys are never 0, values never NULL. A removed entry keeps its key, with the value
 * NULL, until the map is rebuilt, because fibers come back.
 */
#ifndef NB_PTRMAP_H
#define NB_PTRMAP_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uintptr_t key;
    void *value; /* NULL: removed */
} nb_ptrmap_slot_t;

typedef struct {
    nb_ptrmap_slot_t *slots;
    size_t mask;  /* capacity - 1 */
    size_t count; /* without the removed */
    size_t used;  /* with them */
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

/* The key's slot, or the free slot where it would go. */
static inline nb_ptrmap_slot_t *nb_ptrmap_find(const nb_ptrmap_t *map, uintptr_t key)
{
    size_t i = nb_ptrmap_home(map, key);
    while (map->slots[i].key && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    return &map->slots[i];
}

static inline void *nb_ptrmap_get(const nb_ptrmap_t *map, uintptr_t key)
{
    return map->slots ? nb_ptrmap_find(map, key)->value : NULL;
}

/* Returns the value that the key had, or NULL. */
static inline void *nb_ptrmap_put(nb_ptrmap_t *map, uintptr_t key, void *value)
{
    nb_ptrmap_slot_t *slot = nb_ptrmap_find(map, key);
    void *old = slot->value;
    map->used += !slot->key;
    map->count += !old;
    *slot = (nb_ptrmap_slot_t){key, value};
    return old;
}

/* Rebuilds the map without the removed entries. Returns 0 or -ENOMEM with the map unchanged. */
static inline int nb_ptrmap_renew(nb_ptrmap_t *map)
{
    size_t capacity = map->slots ? map->mask + 1 : 64;
    if ((map->count + 1) * 4 > capacity)
        capacity *= 2;
    nb_ptrmap_t renewed = {.slots = calloc(capacity, sizeof(nb_ptrmap_slot_t)),
                           .mask = capacity - 1};
    if (!renewed.slots)
        return -ENOMEM;
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].value)
            nb_ptrmap_put(&renewed, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = renewed;
    return 0;
}

/* Makes room for one more entry. Returns 0 or -ENOMEM with the map unchanged. */
static inline int nb_ptrmap_reserve(nb_ptrmap_t *map)
{
    return map->slots && (map->used + 1) * 2 <= map->mask + 1 ? 0 : nb_ptrmap_renew(map);
}

/* Sets the value of the key. Returns 0 or -ENOMEM with the map unchanged. */
static inline int nb_ptrmap_add(nb_ptrmap_t *map, uintptr_t key, void *value)
{
    if (nb_ptrmap_reserve(map) < 0)
        return -ENOMEM;
    nb_ptrmap_put(map, key, value);
    return 0;
}

/* Does nothing if the key is absent. */
static inline void nb_ptrmap_remove(nb_ptrmap_t *map, uintptr_t key)
{
    nb_ptrmap_slot_t *slot = map->slots ? nb_ptrmap_find(map, key) : NULL;
    if (!slot || !slot->value)
        return;
    slot->value = NULL;
    map->count--;
}

#endif
