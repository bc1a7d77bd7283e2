/* fdtable.h - who waits for which fd, and what is known about it. Pure C.
 *
 * One slot per fd number. The file behind a number can change without anyone telling us (a C
 * library closes its socket, and the next open gets the number), so no slot is trusted blindly: a
 * generation identifies events of the old file, and every watch still pending when the loop is
 * about to sleep is verified against the kernel (one epoll_ctl, paid only when there is nothing to
 * do).
 *
 * Read after: list.h, backend.h.
 */
#ifndef NB_FDTABLE_H
#define NB_FDTABLE_H

#include "backend/backend.h"
#include "base/list.h"
#include <stddef.h>
#include <stdint.h>

/* One interest in one fd. It lives where its owner lives (on a fiber's stack, in a connection). */
typedef struct nb_watch {
    nb_list_t link;    /* in its slot, while added */
    nb_list_t pending; /* in one of the table's lists of watches not yet verified */
    unsigned turn;     /* when it was added, for an unverified one */
    int fd, mask;
    int told; /* of a watch with NB_ONCE, level backends: what it is not watched for at present */
    /* Called with the ready part of mask, while still added; must not raise or wait. */
    void (*on_ready)(struct nb_watch *, int mask);
} nb_watch_t;

/* A slot: what is known about the file behind a number, to save system calls that find nothing.
 * fdtable.c learns it from the kernel, hooks/io.c from the results of its calls ("-": unchanged).
 *
 *   what happened                      registered  dry        stream  woken  misses     unverified
 *   a new file is watched                  1       none         ?       0      0           0
 *   it cannot be watched; it is closed;
 *     16 events in a row for nobody        0       none         -       -      -           -
 *   an event came                          -       without it   -       1      -           -
 *   another IO object has the number       -       none         ?       -      0           0
 *   a call found nothing, or not enough    -       with it      -       -      -           -
 *   a read found nothing                   -       with it      -       0     +1, to 4     -
 *   a read found something                 -       -            -       0      0 if no    -
 *                                                                          event had come
 *   the next read after 4 misses and no
 *     event: not tried, the fiber waits    -       -            -       -      -           1
 *   io_wait lets others go first           -       -            -       -      -           1
 *   that fiber's watch is added            -       -            -       -      -           0
 *   io_wait has found something            -       -            -       0      0           -
 *   a recv or send said ENOTSOCK           -       none         other   -      0           0
 *
 * dry is recorded only while registered is 1, and after a read or write only for a stream socket:
 * otherwise no edge is certain to follow. hung_up is set by a hangup and lasts as long as the file:
 * from then on a short read means nothing. flows to backoff belong to io_wait's guess; its file
 * keeps them, except probed_turn. */
typedef struct {
    nb_list_t watches;
    uintptr_t tag; /* the IO object seen last; compared, never followed */
    uint32_t generation;
    uint32_t closings;  /* how often the number was closed, as far as the hooks were told */
    uint8_t registered; /* the backend knows this file */
    uint8_t dry;        /* events known not to be ready: an edge will come when that changes */
    uint8_t hung_up;    /* a hangup was seen: a short read does not mean dry any more */
    uint8_t stream;     /* 0 unknown, 1 stream socket, 2 something else */
    uint8_t ignored;    /* events in a row that nobody waited for */
    uint8_t woken;      /* an event came since the last read */
    uint8_t misses;     /* reads in a row that found nothing without an event before */
    uint8_t unverified; /* the next watch rests on a guess that there is nothing to read */
    uint8_t flows;      /* 0 unknown, 1 a connection whose bytes form a stream, 2 something else */
    uint8_t guesses;    /* since one was checked by asking instead */
    uint8_t left;       /* such checks in a row that found bytes left unread */
    uint8_t wrong;      /* guesses in a row that were probably wrong */
    uint8_t backoff;    /* waits until the next guess, after too many of these */
    unsigned probed_turn; /* when a guess was verified: an event in this turn means it was wrong */
} nb_slot_t;

#define NB_FDTABLE_PAGE_BITS 8

typedef struct {
    nb_backend_t backend;
    nb_slot_t **pages; /* 256 slots each: slots never move, lists may point at them */
    size_t page_count;
    nb_list_t pending;    /* watches to verify before sleeping; edge backends only */
    nb_list_t unverified; /* those that may have been added too late to see an edge */
    unsigned turn;        /* of the loop: how often unverified ones were looked at */
    size_t count;         /* watches added */
} nb_fdtable_t;

/* Opens the backend. Returns 0 or -errno. */
int nb_fdtable_open(nb_fdtable_t *table, const nb_backend_ops_t *ops);

/* Closes the backend and frees the slots. Watches still added are left dangling: their owner is
 * ending, too. */
void nb_fdtable_close(nb_fdtable_t *table);

/* In a forked child: closes its copy of the backend, which is the parent's. Watches can still be
 * taken out of the table, which no longer has to do with any file. */
void nb_fdtable_abandon(nb_fdtable_t *table);

/* The slot of fd, made if needed. NULL if there is no memory, or for a negative fd. */
nb_slot_t *nb_fdtable_make_slot(nb_fdtable_t *table, int fd);
static inline nb_slot_t *nb_fdtable_slot(nb_fdtable_t *table, int fd)
{
    size_t page = (size_t)fd >> NB_FDTABLE_PAGE_BITS;
    nb_slot_t *slots = page < table->page_count ? table->pages[page] : NULL;
    return slots ? &slots[fd & ((1 << NB_FDTABLE_PAGE_BITS) - 1)] : nb_fdtable_make_slot(table, fd);
}

/* nb_fdtable_again for a mask of which something has been reported. */
void nb_fdtable_rearm(nb_fdtable_t *table, nb_watch_t *watch, int mask);

/* Adds the watch (fd, mask and on_ready set). Returns 0 if it was added; a ready mask > 0 if the fd
 * is of a kind that always has one of its events (then it was not added); or -errno. */
int nb_fdtable_add(nb_fdtable_t *table, nb_watch_t *watch);

/* A guess was checked by asking: whether bytes had been left unread. */
void nb_fdtable_checked(nb_slot_t *slot, bool left);

/* Takes the watch out, if it is in the table. */
void nb_fdtable_remove(nb_fdtable_t *table, nb_watch_t *watch);

/* The owner of a watch with NB_ONCE has found that the event in mask no longer holds, and wants to
 * be told again. An edge backend does so by itself. */
static inline void nb_fdtable_again(nb_fdtable_t *table, nb_watch_t *watch, int mask)
{
    if (watch->told & mask)
        nb_fdtable_rearm(table, watch, mask);
}

/* Verifies that the files behind pending watches are those that are registered. Once per turn:
 * checks one of them, and those unverified ones that got no event in two turns. before_sleep:
 * checks all. */
void nb_fdtable_verify(nb_fdtable_t *table, bool before_sleep);

/* Passes one event of the backend to the watches it concerns. */
void nb_fdtable_dispatch(nb_fdtable_t *table, const nb_event_t *event);

/* The fd is being closed: calls on_ready of every watch with NB_CLOSED, and forgets the file. */
void nb_fdtable_closing(nb_fdtable_t *table, int fd);

#endif
