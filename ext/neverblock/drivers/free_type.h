/* free_type.h - gives objects of a foreign class a free function of ours. Uses ruby.h. */
#ifndef NB_FREE_TYPE_H
#define NB_FREE_TYPE_H

#include <ruby.h>
#include <stdint.h>
#include <string.h>

typedef struct { /* a class of another library; NULL: none of its objects is known yet */
    const rb_data_type_t *theirs;
    rb_data_type_t ours; /* its parent is theirs, so their checks accept it */
} nb_free_type_t;

/* Installs free in place of their function. All objects given with one type are of one class. */
static inline void nb_replace_free(VALUE object, nb_free_type_t *type, void (*free)(void *))
{
    if (!type->theirs) {
        type->theirs = RTYPEDDATA_TYPE(object);
        type->ours = *type->theirs;
        type->ours.function.dfree = free;
        type->ours.parent = type->theirs;
    }
    /* A pointer; from Ruby 4.1 on a VALUE whose low bits say how the struct is kept. */
    uintptr_t word;
    void *place = (void *)(uintptr_t)&RTYPEDDATA(object)->type;
    memcpy(&word, place, sizeof(word));
    word = (uintptr_t)&type->ours | (word & (sizeof(word) - 1));
    memcpy(place, &word, sizeof(word));
}

#endif
