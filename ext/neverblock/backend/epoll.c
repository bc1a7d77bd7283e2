/* epoll.c - edge-triggered epoll(7): one EPOLL_CTL_ADD per file, none per wait. Pure C. */
#include "backend/backend.h"

#ifdef NB_EPOLL
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define EVERYTHING (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET)

static int epoll_open(nb_backend_t *backend)
{
    backend->state = malloc(BATCH * sizeof(struct epoll_event));
    if (!backend->state)
        return -ENOMEM;
    backend->fd = epoll_create1(EPOLL_CLOEXEC);
    return backend->fd < 0 ? -errno : 0;
}

static void epoll_close(nb_backend_t *backend)
{
    if (backend->fd >= 0)
        close(backend->fd);
    backend->fd = -1;
    free(backend->state);
    backend->state = NULL;
}

static int control(nb_backend_t *backend, int operation, int fd, uint32_t generation)
{
    struct epoll_event event = {.events = EVERYTHING,
                                .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    return epoll_ctl(backend->fd, operation, fd, &event) < 0 ? -errno : 0;
}

static int epoll_watch(nb_backend_t *backend, int fd, uint32_t generation, int mask)
{
    (void)mask;
    int result = control(backend, EPOLL_CTL_ADD, fd, generation);
    return result == -EEXIST ? control(backend, EPOLL_CTL_MOD, fd, generation) : result;
}

static int epoll_verify(nb_backend_t *backend, int fd, uint32_t generation)
{
    return control(backend, EPOLL_CTL_MOD, fd, generation);
}

static void epoll_forget(nb_backend_t *backend, int fd)
{
    control(backend, EPOLL_CTL_DEL, fd, 0);
}

static int to_mask(uint32_t events)
{
    int mask = 0;
    if (events & EPOLLIN)
        mask |= NB_READABLE;
    if (events & EPOLLPRI)
        mask |= NB_PRIORITY;
    if (events & EPOLLOUT)
        mask |= NB_WRITABLE;
    if (events & EPOLLRDHUP)
        mask |= NB_READABLE | NB_HANGUP;
    if (events & (EPOLLHUP | EPOLLERR))
        mask |= NB_READABLE | NB_WRITABLE | NB_HANGUP | NB_ENDED;
    return mask;
}

/* Nanoseconds where the kernel has epoll_pwait2 (5.11); else milliseconds, rounded up. */
static int wait_for(int epoll_fd, struct epoll_event *events, int capacity, int64_t timeout_ns)
{
#ifdef HAVE_EPOLL_PWAIT2
    if (timeout_ns > 0) {
        struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
        int count = epoll_pwait2(epoll_fd, events, capacity, &timeout, NULL);
        if (count >= 0 || errno != ENOSYS)
            return count;
    }
#endif
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + 999999) / 1000000;
    return epoll_wait(epoll_fd, events, capacity, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

static int epoll_wait_events(nb_backend_t *backend, nb_event_t *events, int capacity,
                             int64_t timeout_ns)
{
    struct epoll_event *raw = backend->state;
    int count = wait_for(backend->fd, raw, capacity < BATCH ? capacity : BATCH, timeout_ns);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++)
        events[i] = (nb_event_t){.fd = (int)(uint32_t)raw[i].data.u64,
                                 .generation = (uint32_t)(raw[i].data.u64 >> 32),
                                 .mask = to_mask(raw[i].events)};
    return count;
}

const nb_backend_ops_t nb_backend_epoll = {
    .name = "epoll",
    .edge = true,
    .open = epoll_open,
    .close = epoll_close,
    .watch = epoll_watch,
    .verify = epoll_verify,
    .forget = epoll_forget,
    .wait = epoll_wait_events,
};
#endif
