/* clock.h - the one clock and the one conversion of seconds. Pure C. */
#ifndef NB_CLOCK_H
#define NB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NB_NS_PER_S 1000000000ull
#define NB_NEVER UINT64_MAX

/* CLOCK_MONOTONIC in nanoseconds. About 20 ns a call (vDSO). */
static inline uint64_t nb_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NB_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Seconds from now -> nanoseconds, rounded up so that a wait is never early; at most ~292 years. */
static inline uint64_t nb_clock_ns(double seconds)
{
    if (!(seconds > 0))
        return 0;
    if (seconds >= 9.0e9)
        return INT64_MAX;
    uint64_t ns = (uint64_t)(seconds * 1e9);
    return ((double)ns < seconds * 1e9) ? ns + 1 : ns;
}

#endif
