/* list.h - an intrusive doubly linked ring. Pure C. */
#ifndef NB_LIST_H
#define NB_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nb_list {
    struct nb_list *next, *prev;
} nb_list_t;

#define nb_container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void nb_list_init(nb_list_t *list)
{
    list->next = list->prev = list;
}
static inline bool nb_list_empty(const nb_list_t *list)
{
    return list->next == list;
}

static inline void nb_list_append(nb_list_t *list, nb_list_t *item)
{
    item->prev = list->prev;
    item->next = list;
    list->prev->next = item;
    list->prev = item;
}

/* Safe to call again: a removed item is a ring of its own. */
static inline void nb_list_remove(nb_list_t *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    nb_list_init(item);
}

/* Takes all items out. */
static inline void nb_list_clear(nb_list_t *list)
{
    while (!nb_list_empty(list))
        nb_list_remove(list->next);
}

#endif
