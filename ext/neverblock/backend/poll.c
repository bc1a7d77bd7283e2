/* poll.c - poll(2): the portable reference, level-triggered, O(fds) per wait. Pure C. */
#include "backend/backend.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Elsewhere only a read tells of a peer's half-close. */
#if !defined(POLLRDHUP) || defined(NB_PORTABLE)
#undef POLLRDHUP
#define POLLRDHUP 0
#endif

typedef struct {
    uint32_t generation;
    int mask;
} wish_t;

typedef struct {
    struct pollfd *fds;
    wish_t *wishes; /* of the fd at the same place */
    int count, capacity;
    int *places; /* fd -> place in fds + 1, 0 when absent */
    int places_size;
    int start; /* where the next scan begins, so that a full batch starves nobody */
} poll_set_t;

short nb_poll_events(int mask)
{
    return (short)((mask & NB_READABLE ? POLLIN : 0) | (mask & NB_PRIORITY ? POLLPRI : 0) |
                   (mask & NB_WRITABLE ? POLLOUT : 0) | (mask & NB_HANGUP ? POLLRDHUP : 0));
}

int nb_poll_mask(short revents)
{
    int mask = 0;
    if (revents & POLLIN)
        mask |= NB_READABLE;
    if (revents & POLLPRI)
        mask |= NB_PRIORITY;
    if (revents & POLLOUT)
        mask |= NB_WRITABLE;
    if (revents & POLLRDHUP)
        mask |= NB_READABLE | NB_HANGUP;
    if (revents & (POLLHUP | POLLERR))
        mask |= NB_READABLE | NB_WRITABLE | NB_HANGUP | NB_ENDED;
    return mask;
}

int nb_poll_found(short revents)
{
    int mask = revents & POLLPRI ? NB_PRIORITY : 0;
    if (revents & (POLLIN | POLLHUP | POLLERR))
        mask |= NB_READABLE;
    if (revents & (POLLOUT | POLLERR))
        mask |= NB_WRITABLE;
    return mask;
}

int nb_poll_now(int fd, int mask)
{
    struct pollfd one = {.fd = fd, .events = nb_poll_events(mask)};
    int count;
    do {
        count = poll(&one, 1, 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    if (one.revents & POLLNVAL)
        return -EBADF;
    return nb_poll_found(one.revents);
}

static int set_open(nb_backend_t *backend)
{
    backend->fd = -1;
    backend->state = calloc(1, sizeof(poll_set_t));
    return backend->state ? 0 : -ENOMEM;
}

static void set_close(nb_backend_t *backend)
{
    poll_set_t *set = backend->state;
    if (!set)
        return;
    free(set->fds);
    free(set->wishes);
    free(set->places);
    free(set);
    backend->state = NULL;
}

static int grow(poll_set_t *set, int fd)
{
    if (fd >= set->places_size) {
        int size = fd + 64;
        int *places = realloc(set->places, (size_t)size * sizeof(int));
        if (!places)
            return -ENOMEM;
        memset(places + set->places_size, 0, (size_t)(size - set->places_size) * sizeof(int));
        set->places = places;
        set->places_size = size;
    }
    if (set->count == set->capacity) {
        int capacity = set->capacity ? set->capacity * 2 : 64;
        struct pollfd *fds = realloc(set->fds, (size_t)capacity * sizeof(*fds));
        if (!fds)
            return -ENOMEM;
        set->fds = fds;
        wish_t *wishes = realloc(set->wishes, (size_t)capacity * sizeof(*wishes));
        if (!wishes)
            return -ENOMEM;
        set->wishes = wishes;
        set->capacity = capacity;
    }
    return 0;
}

static void take_out(poll_set_t *set, int fd)
{
    int place = set->places[fd] - 1, last = --set->count;
    set->places[fd] = 0;
    if (place == last)
        return;
    set->fds[place] = set->fds[last];
    set->wishes[place] = set->wishes[last];
    set->places[set->fds[place].fd] = place + 1;
}

static int set_watch(nb_backend_t *backend, int fd, uint32_t generation, int mask)
{
    poll_set_t *set = backend->state;
    bool present = fd < set->places_size && set->places[fd];
    if (mask == 0) {
        if (present)
            take_out(set, fd);
        return 0;
    }
    if (!present) {
        int result = grow(set, fd);
        if (result < 0)
            return result;
        set->places[fd] = ++set->count;
    }
    int place = set->places[fd] - 1;
    set->fds[place] = (struct pollfd){.fd = fd, .events = nb_poll_events(mask)};
    set->wishes[place] = (wish_t){generation, mask};
    return 0;
}

static int poll_for(poll_set_t *set, int64_t timeout_ns)
{
#ifdef __linux__
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    return ppoll(set->fds, (nfds_t)set->count, timeout_ns < 0 ? NULL : &timeout, NULL);
#else
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + 999999) / 1000000;
    return poll(set->fds, (nfds_t)set->count, ms > INT32_MAX ? INT32_MAX : (int)ms);
#endif
}

/* Whether the bytes that came are the last, for one who wants to know and gets no POLLRDHUP. */
static int end_of(const struct pollfd *polled, int mask)
{
    char byte;
    if (POLLRDHUP || !(mask & NB_HANGUP) || !(polled->revents & POLLIN))
        return 0;
    return recv(polled->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ? NB_HANGUP : 0;
}

static int set_wait(nb_backend_t *backend, nb_event_t *events, int capacity, int64_t timeout_ns)
{
    poll_set_t *set = backend->state;
    int left = poll_for(set, timeout_ns), count = 0;
    if (left < 0)
        return errno == EINTR ? 0 : -errno;
    for (int n = 0; n < set->count && left > 0 && count < capacity; n++) {
        int i = (set->start + n) % set->count;
        short revents = set->fds[i].revents;
        if (!revents)
            continue;
        left--;
        /* A closed fd wakes its waiters, whose next system call then says EBADF. */
        int mask = revents & POLLNVAL
                       ? NB_READABLE | NB_PRIORITY | NB_WRITABLE | NB_HANGUP | NB_ENDED
                       : nb_poll_mask(revents) | end_of(&set->fds[i], set->wishes[i].mask);
        events[count++] = (nb_event_t){set->fds[i].fd, set->wishes[i].generation, mask};
        if (count == capacity)
            set->start = i + 1;
    }
    return count;
}

const nb_backend_ops_t nb_backend_poll = {
    .name = "poll",
    .edge = false,
    .open = set_open,
    .close = set_close,
    .watch = set_watch,
    .wait = set_wait,
};
