/* incident.h - one time that a loop stands still: what is known, and its report. Uses ruby.h.
 * Read after: probe.h, stall_counts.h.
 */
#ifndef NB_LOOP_INCIDENT_H
#define NB_LOOP_INCIDENT_H

#include "loop/loop.h"
#include "loop/stall.h"

typedef struct nb_incident {
    bool open;         /* else this is free */
    bool told;         /* reported while the loop still stood */
    bool written;      /* that report came to stderr */
    unsigned ended;    /* it goes on: how often to look still before this is reported */
    uint64_t again_ns; /* how long it must stand to be looked at anew */
    uint64_t asked_ns; /* how long it had stood when it was asked */
    uint64_t runs;     /* how often its thread had got a core when it was asked */
    nb_stall_t stall;
    nb_stall_t longest; /* as answered where it stood longest, before it was asked again */
    uint64_t longest_ns;
} nb_incident_t;

/* All functions are called with the watchdog's lock. */

/* Looks where the loop stands. Returns NULL if too many loops stand still at this time. */
nb_incident_t *nb_incident_begin(const nb_loop_t *loop, uint64_t stood_ns);

/* Looks again, if it is not known where, or if it has stood for twice as long since. */
void nb_incident_look(nb_incident_t *incident, const nb_loop_t *loop, uint64_t stood_ns);

/* Reports a loop that still stands. Returns false, and forgets it, if its thread only had no
 * core. */
bool nb_incident_tell(nb_incident_t *incident);

/* The loop goes on. What follows is the report, by nb_incidents_settle; if that was written, the
 * whole time. */
void nb_incident_end(nb_incident_t *incident);

void nb_incident_drop(nb_incident_t *incident);

/* Reports those that have ended. at_once: without waiting for the names of methods in C. Returns
 * whether some wait for these. */
bool nb_incidents_settle(bool at_once);

/* In a forked child. */
void nb_incidents_forget(void);

#endif
