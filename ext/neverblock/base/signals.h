/* signals.h - what a signal handler of ours holds back while it runs. Pure C. */
#ifndef NB_BASE_SIGNALS_H
#define NB_BASE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/* A collector may wait for the handler, so no other one interrupts it, which might not return. */
static inline void nb_signals_hold(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        sigdelset(set, faults[i]);
}

#endif
