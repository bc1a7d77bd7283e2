/* transferred.c - fibers that left by Fiber#transfer. Uses ruby.h. Read after: transferred.h. */
#include "loop/transferred.h"

/* A fiber that has left; this lies on its own C stack. */
typedef struct {
    nb_loop_t *loop;
    VALUE fiber;
    VALUE owner; /* the loop's fiber that it runs in, or that it is */
    VALUE error; /* what it raised when it ended; or nil */
} nb_transferred_t;

/* The first one to leave is where Ruby would continue: while none is away, only fibers that its
 * owner has resumed, and those that these have resumed, can leave. */
static bool leads(const nb_transferred_t *away)
{
    return nb_ptrmap_get(&away->loop->leads, away->owner) == away;
}

static VALUE come_back(VALUE argument)
{
    nb_transferred_t *away = (nb_transferred_t *)argument;
    nb_loop_t *loop = away->loop;
    nb_ptrmap_remove(&loop->transferred, away->fiber);
    if (leads(away))
        nb_ptrmap_remove(&loop->leads, away->owner);
    loop->current = away->owner;
    return Qnil;
}

VALUE nb_transferred_during(nb_loop_t *loop, VALUE (*body)(VALUE), VALUE argument)
{
    nb_transferred_t away = {loop, rb_fiber_current(), loop->current, Qnil};
    if (!away.owner || nb_ptrmap_get(&loop->transferred, away.fiber))
        return body(argument);
    if (nb_ptrmap_reserve(&loop->leads) < 0 ||
        nb_ptrmap_add(&loop->transferred, away.fiber, &away) < 0)
        rb_memerror();
    if (!nb_ptrmap_get(&loop->leads, away.owner))
        nb_ptrmap_put(&loop->leads, away.owner, &away);
    VALUE value = rb_ensure(body, argument, come_back, (VALUE)&away);
    if (away.error != Qnil)
        rb_exc_raise(away.error);
    return value;
}

bool nb_is_transferred(const nb_loop_t *loop, VALUE fiber)
{
    return nb_ptrmap_get(&loop->transferred, fiber) != NULL;
}

typedef struct {
    VALUE fiber;
    int count;
    VALUE value;
} nb_passage_t;

static VALUE pass(VALUE argument)
{
    const nb_passage_t *passage = (nb_passage_t *)argument;
    return rb_fiber_transfer(passage->fiber, passage->count, &passage->value);
}

/* The fiber that has to know that the current one has ended; NULL if there is none. */
static nb_transferred_t *take_leader(nb_loop_t *loop)
{
    nb_transferred_t *away = loop->leads.count ? nb_ptrmap_get(&loop->leads, loop->current) : NULL;
    if (away)
        nb_ptrmap_remove(&loop->leads, loop->current);
    return away;
}

void nb_transferred_enter(nb_loop_t *loop, const nb_park_t *self, VALUE fiber)
{
    int tag = 0;
    nb_passage_t passage = {fiber, 0, Qnil};
    VALUE value = rb_protect(pass, (VALUE)&passage, &tag);
    while (self->state != NB_RUNNING && (!tag || nb_is_exception(rb_errinfo()))) {
        nb_transferred_t *away = take_leader(loop);
        if (!away)
            break;
        if (tag)
            away->error = rb_errinfo();
        rb_set_errinfo(Qnil);
        passage = (nb_passage_t){away->fiber, 1, value};
        value = rb_protect(pass, (VALUE)&passage, &tag);
    }
    RB_GC_GUARD(passage.value);
    if (tag)
        rb_jump_tag(tag);
}

static void mark_keys(const nb_ptrmap_t *map)
{
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].value)
            rb_gc_mark((VALUE)map->slots[i].key);
}

void nb_transferred_mark(const nb_loop_t *loop)
{
    mark_keys(&loop->transferred);
    mark_keys(&loop->leads);
}

void nb_transferred_free(nb_loop_t *loop)
{
    nb_ptrmap_free(&loop->transferred);
    nb_ptrmap_free(&loop->leads);
}
