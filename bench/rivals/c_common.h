/* c_common.h - what every program here does: ends with a message, reads the clock, its CPU time and
 * its limits. Included by all of them. */
#ifndef C_COMMON_H
#define C_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4, program_invocation_short_name */
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* who - RUSAGE_SELF or RUSAGE_CHILDREN. Returns seconds. */
static inline double cpu_of(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Raises the number of fds as far as the system permits. Returns it. */
static inline rlim_t raise_fd_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

#endif
