/* fdtable.c - who waits for which fd. Pure C. Read after: fdtable.h. */
#include "loop/fdtable.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BITS NB_FDTABLE_PAGE_BITS
#define PAGE_SIZE (1u << PAGE_BITS)
/* The events that a file has at any time if no backend can watch it; others never come. */
#define ALWAYS (NB_READABLE | NB_WRITABLE)
/* Events in a row for nobody before the fd is taken out of the backend. */
#define IGNORED_LIMIT 16
/* A guess may look wrong because the answer came just then: so many in a row are. */
#define WRONG_LIMIT 3
#define LEFT_LIMIT 8
/* The waits that ask first after them. */
#define BACKOFF_WAITS 255

int nb_fdtable_open(nb_fdtable_t *table, const nb_backend_ops_t *ops)
{
    *table = (nb_fdtable_t){.backend = {.ops = ops, .fd = -1}};
    nb_list_init(&table->pending);
    nb_list_init(&table->unverified);
    return ops->open(&table->backend);
}

void nb_fdtable_close(nb_fdtable_t *table)
{
    if (table->backend.ops)
        table->backend.ops->close(&table->backend);
    for (size_t i = 0; i < table->page_count; i++)
        free(table->pages[i]);
    free(table->pages);
    table->pages = NULL;
    table->page_count = 0;
    table->count = 0;
}

/* The backend of a table that has none. */
static int watch_nothing(nb_backend_t *backend, int fd, uint32_t generation, int mask)
{
    (void)backend, (void)fd, (void)generation, (void)mask;
    return 0;
}

static void leave_alone(nb_backend_t *backend, int fd)
{
    (void)backend, (void)fd;
}

static void close_nothing(nb_backend_t *backend)
{
    (void)backend;
}

static const nb_backend_ops_t abandoned = {.name = "abandoned",
                                           .edge = true,
                                           .watch = watch_nothing,
                                           .forget = leave_alone,
                                           .close = close_nothing};

void nb_fdtable_abandon(nb_fdtable_t *table)
{
    table->backend.ops->close(&table->backend);
    table->backend.ops = &abandoned;
}

static nb_slot_t *add_page(nb_fdtable_t *table, size_t page)
{
    if (page >= table->page_count) {
        size_t count = page + 1 > table->page_count * 2 ? page + 1 : table->page_count * 2;
        nb_slot_t **pages = realloc(table->pages, count * sizeof(*pages));
        if (!pages)
            return NULL;
        memset(pages + table->page_count, 0, (count - table->page_count) * sizeof(*pages));
        table->pages = pages;
        table->page_count = count;
    }
    nb_slot_t *slots = calloc(PAGE_SIZE, sizeof(nb_slot_t));
    if (!slots)
        return NULL;
    for (size_t i = 0; i < PAGE_SIZE; i++)
        nb_list_init(&slots[i].watches);
    return table->pages[page] = slots;
}

nb_slot_t *nb_fdtable_make_slot(nb_fdtable_t *table, int fd)
{
    nb_slot_t *slots = fd < 0 ? NULL : add_page(table, (size_t)fd >> PAGE_BITS);
    return slots ? &slots[(size_t)fd & (PAGE_SIZE - 1)] : NULL;
}

/* The events that the backend is to report at present. */
static int interest(const nb_watch_t *watch)
{
    return watch->mask & ~(watch->told | NB_ONCE);
}

/* Level only. Tells the backend the union of all watches of the fd, and one more mask. */
static int watch_union(nb_fdtable_t *table, const nb_slot_t *slot, int fd, int mask)
{
    for (nb_list_t *item = slot->watches.next; item != &slot->watches; item = item->next)
        mask |= interest(nb_container_of(item, nb_watch_t, link));
    return table->backend.ops->watch(&table->backend, fd, slot->generation, mask);
}

/* The fd has a new file: tells the backend, and begins a new generation. */
static int enlist(nb_fdtable_t *table, nb_slot_t *slot, const nb_watch_t *watch)
{
    slot->generation++;
    int result = watch_union(table, slot, watch->fd, interest(watch));
    slot->registered = result == 0;
    slot->dry = slot->hung_up = slot->stream = slot->ignored = 0;
    slot->woken = slot->misses = slot->unverified = 0;
    slot->flows = slot->guesses = slot->left = slot->wrong = slot->backoff = 0;
    return result;
}

int nb_fdtable_add(nb_fdtable_t *table, nb_watch_t *watch)
{
    nb_slot_t *slot = nb_fdtable_slot(table, watch->fd);
    if (!slot)
        return watch->fd < 0 ? -EBADF : -ENOMEM;
    bool edge = table->backend.ops->edge;
    int result = 0;
    watch->told = 0;
    if (!edge || !slot->registered)
        result = enlist(table, slot, watch);
    bool unwatchable = result == -EPERM; /* such as a regular file */
    if (result < 0 && (!unwatchable || interest(watch) & ALWAYS))
        return unwatchable ? interest(watch) & ALWAYS : result;
    nb_list_append(&slot->watches, &watch->link);
    nb_list_init(&watch->pending);
    if (edge && !unwatchable)
        nb_list_append(slot->unverified ? &table->unverified : &table->pending, &watch->pending);
    watch->turn = table->turn;
    slot->unverified = 0;
    table->count++;
    return 0;
}

void nb_fdtable_remove(nb_fdtable_t *table, nb_watch_t *watch)
{
    if (!watch->link.next || nb_list_empty(&watch->link))
        return;
    nb_list_remove(&watch->link);
    nb_list_remove(&watch->pending);
    table->count--;
    if (!table->backend.ops->edge) {
        nb_slot_t *slot = nb_fdtable_slot(table, watch->fd);
        watch_union(table, slot, watch->fd, 0);
    }
}

void nb_fdtable_rearm(nb_fdtable_t *table, nb_watch_t *watch, int mask)
{
    watch->told &= ~mask;
    if (watch->link.next && !nb_list_empty(&watch->link))
        watch_union(table, nb_fdtable_slot(table, watch->fd), watch->fd, 0);
}

/* A level backend would report it at every turn, as long as the state lasts. */
static void tell_once(nb_fdtable_t *table, nb_watch_t *watch, const nb_slot_t *slot, int mask)
{
    watch->told |= mask & NB_ENDED ? watch->mask : mask & watch->mask;
    watch_union(table, slot, watch->fd, 0);
}

static void notify(nb_fdtable_t *table, nb_slot_t *slot, int mask)
{
    nb_list_t *item = slot->watches.next;
    while (item != &slot->watches) {
        nb_watch_t *watch = nb_container_of(item, nb_watch_t, link);
        item = item->next; /* on_ready may take this watch out, no other */
        if (!(mask & (watch->mask | NB_ENDED)))
            continue;
        if (watch->mask & NB_ONCE && !table->backend.ops->edge)
            tell_once(table, watch, slot, mask);
        watch->on_ready(watch, mask);
    }
}

static void verify(nb_fdtable_t *table, nb_watch_t *watch)
{
    nb_slot_t *slot = nb_fdtable_slot(table, watch->fd);
    nb_list_remove(&watch->pending);
    int result = table->backend.ops->verify(&table->backend, watch->fd, slot->generation);
    if (result == -ENOENT)
        result = enlist(table, slot, watch);
    /* A file that cannot be watched (closed, or regular) wakes its waiters: their next system call
     * tells them why. */
    if (result < 0) {
        slot->registered = slot->dry = 0;
        notify(table, slot, NB_READABLE | NB_PRIORITY | NB_WRITABLE | NB_HANGUP | NB_ENDED);
    }
}

/* In the middle of a turn, the backend is asked next. Before sleep, the event may take its time. */
static void verify_guess(nb_fdtable_t *table, nb_watch_t *watch, bool before_sleep)
{
    if (!before_sleep)
        nb_fdtable_slot(table, watch->fd)->probed_turn = table->turn;
    verify(table, watch);
}

static nb_watch_t *first_of(nb_list_t *list)
{
    return nb_list_empty(list) ? NULL : nb_container_of(list->next, nb_watch_t, pending);
}

void nb_fdtable_verify(nb_fdtable_t *table, bool before_sleep)
{
    nb_watch_t *watch;
    table->turn++;
    while ((watch = first_of(&table->unverified)) &&
           (before_sleep || table->turn - watch->turn > 2))
        verify_guess(table, watch, before_sleep);
    while ((watch = first_of(&table->pending))) {
        verify(table, watch);
        if (!before_sleep)
            break;
    }
}

/* If the first one after these waits is wrong again, so are the next. */
static void mislead(nb_slot_t *slot)
{
    slot->wrong = WRONG_LIMIT - 1;
    slot->left = LEFT_LIMIT - 1;
    slot->backoff = BACKOFF_WAITS;
}

void nb_fdtable_checked(nb_slot_t *slot, bool left)
{
    slot->left = left ? slot->left + 1 : 0;
    if (slot->left >= LEFT_LIMIT)
        mislead(slot);
}

static void judge_guess(nb_slot_t *slot, bool wrong)
{
    slot->wrong = wrong ? slot->wrong + 1 : 0;
    if (slot->wrong >= WRONG_LIMIT)
        mislead(slot);
}

void nb_fdtable_dispatch(nb_fdtable_t *table, const nb_event_t *event)
{
    nb_slot_t *slot = nb_fdtable_slot(table, event->fd);
    if (!slot || slot->generation != event->generation)
        return;
    slot->dry &= (uint8_t)~event->mask;
    slot->woken = 1;
    if (event->mask & NB_READABLE)
        judge_guess(slot, slot->probed_turn == table->turn);
    if (event->mask & NB_HANGUP)
        slot->hung_up = 1;
    if (!nb_list_empty(&slot->watches)) {
        slot->ignored = 0;
        notify(table, slot, event->mask);
    } else if (table->backend.ops->edge && ++slot->ignored >= IGNORED_LIMIT) {
        table->backend.ops->forget(&table->backend, event->fd);
        slot->registered = slot->dry = 0;
    }
}

void nb_fdtable_closing(nb_fdtable_t *table, int fd)
{
    size_t page = (size_t)fd >> PAGE_BITS;
    if (fd < 0 || page >= table->page_count || !table->pages[page])
        return;
    nb_slot_t *slot = nb_fdtable_slot(table, fd);
    if (slot->registered && table->backend.ops->edge)
        table->backend.ops->forget(&table->backend, fd);
    slot->registered = slot->dry = 0;
    slot->generation++;
    slot->closings++;
    slot->tag = 0;
    notify(table, slot, NB_HANGUP | NB_ENDED | NB_CLOSED);
}
