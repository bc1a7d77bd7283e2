/* condition.h - a condition variable that is waited for until a time of CLOCK_MONOTONIC. Pure C.
 *
 * macOS cannot set the clock of a condition variable, but can wait for a time span. On other
 * systems without pthread_condattr_setclock, a step of the system's clock makes one wait longer or
 * shorter.
 */
#ifndef NB_CONDITION_H
#define NB_CONDITION_H

#include "base/clock.h"
#include <pthread.h>

static inline void nb_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifdef HAVE_PTHREAD_CONDATTR_SETCLOCK
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static inline struct timespec nb_condition_time(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NB_NS_PER_S),
                             .tv_nsec = (long)(ns % NB_NS_PER_S)};
}

/* Waits until it is signalled, or until when_ns; NB_NEVER: without limit. Returns 0 or an errno,
 * usually ETIMEDOUT. */
static inline int nb_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                    uint64_t when_ns)
{
    if (when_ns == NB_NEVER)
        return pthread_cond_wait(condition, lock);
#ifdef HAVE_PTHREAD_CONDATTR_SETCLOCK
    struct timespec until = nb_condition_time(when_ns);
    return pthread_cond_timedwait(condition, lock, &until);
#else
    uint64_t now = nb_clock_now(), left = when_ns > now ? when_ns - now : 0;
#ifdef __APPLE__
    struct timespec span = nb_condition_time(left);
    return pthread_cond_timedwait_relative_np(condition, lock, &span);
#else
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t wall_ns = (uint64_t)wall.tv_sec * NB_NS_PER_S + (uint64_t)wall.tv_nsec;
    struct timespec until = nb_condition_time(wall_ns + left);
    return pthread_cond_timedwait(condition, lock, &until);
#endif
#endif
}

#endif
