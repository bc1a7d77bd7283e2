/* epoll.c - edge-triggered epoll(7): one EPOLL_CTL_ADD per file, none per wait. Pure C. */
#include "backend/backend.h"

#ifdef NB_EPOLL
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define EVERYTHING (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET)

typedef struct {
    int alarm; /* timerfd, or -1 */
    struct epoll_event events[BATCH];
} state_t;

static int epoll_open(nb_backend_t *backend)
{
    state_t *state = backend->state = malloc(sizeof(*state));
    if (!state)
        return -ENOMEM;
    state->alarm = -1;
    backend->fd = epoll_create1(EPOLL_CLOEXEC);
    return backend->fd < 0 ? -errno : 0;
}

static void epoll_close(nb_backend_t *backend)
{
    state_t *state = backend->state;
    if (backend->fd >= 0)
        close(backend->fd);
    if (state && state->alarm >= 0)
        close(state->alarm);
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
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) /* EPERM: a sandbox knows it not */
            return count;
    }
#endif
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + 999999) / 1000000;
    return epoll_wait(epoll_fd, events, capacity, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* Until it goes off again. */
static void silence(int alarm)
{
    uint64_t times;
    ssize_t got = read(alarm, &times, sizeof(times));
    (void)got; /* nothing: it was set anew meanwhile */
}

static int epoll_wait_events(nb_backend_t *backend, nb_event_t *events, int capacity,
                             int64_t timeout_ns)
{
    state_t *state = backend->state;
    struct epoll_event *raw = state->events;
    int got = wait_for(backend->fd, raw, capacity < BATCH ? capacity : BATCH, timeout_ns);
    if (got < 0)
        return errno == EINTR ? 0 : -errno;
    int count = 0;
    for (int i = 0; i < got; i++) {
        int fd = (int)(uint32_t)raw[i].data.u64;
        if (fd == state->alarm)
            silence(fd);
        else
            events[count++] = (nb_event_t){.fd = fd,
                                           .generation = (uint32_t)(raw[i].data.u64 >> 32),
                                           .mask = to_mask(raw[i].events)};
    }
    return count;
}

/* Opened at the first call and kept. */
static int epoll_alarm(nb_backend_t *backend, uint64_t when_ns)
{
    state_t *state = backend->state;
    if (state->alarm < 0) {
        state->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (state->alarm < 0)
            return -errno;
        int result = control(backend, EPOLL_CTL_ADD, state->alarm, 0);
        if (result < 0)
            return result;
    }
    struct itimerspec spec = {{0, 0}, {0, 0}}; /* 0: not at all */
    if (when_ns != NB_NEVER) {
        spec.it_value.tv_sec = (time_t)(when_ns / NB_NS_PER_S);
        spec.it_value.tv_nsec = (long)(when_ns % NB_NS_PER_S);
    }
    return timerfd_settime(state->alarm, TFD_TIMER_ABSTIME, &spec, NULL) < 0 ? -errno : 0;
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
    .alarm = epoll_alarm,
};
#endif
