/* stacks.c - call stacks, and what happened at each of them, how often and how long. Uses ruby.h.
 *
 * A table with open addressing. A frame is in many stacks, but is marked only once, because each
 * run of the collector marks again what no write barrier protects. Read after: stacks.h.
 */
#include "loop/stacks.h"
#include "base/ptrmap.h"
#include <stdio.h>
#include <string.h>

#define CAPACITY 32768 /* a power of two */
#define LIMIT (CAPACITY / 2)

static struct {
    nb_stack_t **slots; /* CAPACITY; NULL before the first entry */
    size_t count;
    nb_ptrmap_t kept; /* frame -> itself: pins the frames */
    nb_stack_t rest;  /* the sum of all stacks that found no slot */
} stacks;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9E3779B97F4A7C15ull ^ hash >> 29;
}

static uint64_t hash_of(const VALUE *frames, const int *lines, int count, int kind,
                        const char *subject)
{
    uint64_t hash = mix((uint64_t)kind, (uint64_t)count);
    for (int i = 0; i < count; i++)
        hash = mix(mix(hash, frames[i]), (uint64_t)lines[i]);
    for (; *subject; subject++)
        hash = mix(hash, (unsigned char)*subject);
    return hash ^ hash >> 32;
}

static bool is_it(const nb_stack_t *stack, const VALUE *frames, const int *lines, int count)
{
    if (!count || stack->count != count) /* without frames there are no arrays */
        return stack->count == count;
    return !memcmp(stack->frames, frames, sizeof(VALUE) * (size_t)count) &&
           !memcmp(stack->lines, lines, sizeof(int) * (size_t)count);
}

static void release(nb_stack_t *stack)
{
    free(stack->frames);
    free(stack->lines);
    free(stack);
}

static nb_stack_t *copy(const VALUE *frames, const int *lines, int count)
{
    size_t size = (size_t)count;
    nb_stack_t *stack = calloc(1, sizeof(*stack));
    if (!stack)
        return NULL;
    stack->frames = malloc(sizeof(VALUE) * (size + 1));
    stack->lines = malloc(sizeof(int) * (size + 1));
    bool kept = stack->frames && stack->lines;
    for (int i = 0; kept && i < count; i++)
        kept = !nb_ptrmap_add(&stacks.kept, frames[i], (void *)frames[i]);
    if (!kept) {
        release(stack);
        return NULL;
    }
    if (size) {
        memcpy(stack->frames, frames, sizeof(VALUE) * size);
        memcpy(stack->lines, lines, sizeof(int) * size);
    }
    stack->count = count;
    return stack;
}

static bool has_room(void)
{
    if (!stacks.slots)
        stacks.slots = calloc(CAPACITY, sizeof(nb_stack_t *));
    return stacks.slots;
}

nb_stack_t *nb_stacks_find(const VALUE *frames, const int *lines, int count, int kind,
                           const char *subject)
{
    if (!has_room())
        return &stacks.rest;
    uint64_t hash = hash_of(frames, lines, count, kind, subject);
    size_t at = hash & (CAPACITY - 1);
    for (; stacks.slots[at]; at = (at + 1) & (CAPACITY - 1)) {
        nb_stack_t *stack = stacks.slots[at];
        if (stack->hash == hash && stack->kind == kind && !strcmp(stack->subject, subject) &&
            is_it(stack, frames, lines, count))
            return stack;
    }
    nb_stack_t *stack = stacks.count < LIMIT ? copy(frames, lines, count) : NULL;
    if (!stack)
        return &stacks.rest;
    stack->hash = hash;
    stack->kind = kind;
    snprintf(stack->subject, sizeof(stack->subject), "%s", subject);
    stacks.slots[at] = stack;
    stacks.count++;
    return stack;
}

void nb_stack_add(nb_stack_t *stack, uint64_t took_ns)
{
    stack->times++;
    stack->total_ns += took_ns;
    if (stack->longest_ns < took_ns)
        stack->longest_ns = took_ns;
}

void nb_stacks_clear(void)
{
    for (size_t i = 0; stacks.slots && i < CAPACITY; i++)
        if (stacks.slots[i])
            release(stacks.slots[i]);
    free(stacks.slots);
    stacks.slots = NULL;
    stacks.count = 0;
    stacks.rest = (nb_stack_t){.kind = -1};
    nb_ptrmap_free(&stacks.kept);
}

void nb_stacks_each(void (*call)(const nb_stack_t *stack, VALUE argument), VALUE argument)
{
    for (size_t i = 0; stacks.slots && i < CAPACITY; i++)
        if (stacks.slots[i])
            call(stacks.slots[i], argument);
    if (stacks.rest.times)
        call(&stacks.rest, argument);
}

static void mark(void *unused)
{
    for (size_t i = 0; stacks.kept.slots && i <= stacks.kept.mask; i++)
        if (stacks.kept.slots[i].value)
            rb_gc_mark((VALUE)stacks.kept.slots[i].value);
}

static const rb_data_type_t marker_type = {
    .wrap_struct_name = "NB::Profile/stacks",
    .function = {.dmark = mark},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

void Init_nb_stacks(void)
{
    stacks.rest.kind = -1;
    rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &marker_type, &stacks));
}
