/* incident.c - one time that a loop stands still: what is known, and its report. Uses ruby.h.
 *
 * A stall may go on in other calls than it began with. So a loop is looked at again whenever it has
 * stood for twice as long, and each place counts until the next look: the one that lasted longest
 * is reported. Who has waited in the same system call ever since, and got no core meanwhile, is not
 * asked again. Read after: incident.h.
 */
#include "loop/incident.h"
#include "loop/stall_counts.h"
#include "loop/probe.h"
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define LOOKS_FOR_NAME 20  /* after the end */
#define GVL_NS NB_NS_PER_S /* less is how Ruby's threads take turns, each for 100 ms */

static nb_incident_t incidents[NB_PROBES];

static size_t index_of(const nb_incident_t *incident)
{
    return (size_t)(incident - incidents);
}

static void note_wait(nb_stall_t *stall, const nb_watched_t *watched)
{
    nb_stall_note_wait(stall, watched->tid);
    stall->wants_gvl = atomic_load_explicit(watched->wants_gvl, memory_order_relaxed);
}

static void ask(nb_incident_t *incident, const nb_loop_t *loop, uint64_t stood_ns)
{
    incident->asked_ns = stood_ns;
    nb_probe_ask(index_of(incident), loop);
    nb_probe_tell(index_of(incident), &incident->stall);
    incident->runs = nb_stall_scheduled(loop->watched.tid).runs;
}

nb_incident_t *nb_incident_begin(const nb_loop_t *loop, uint64_t stood_ns)
{
    for (nb_incident_t *one = incidents; one < incidents + NB_PROBES; one++) {
        if (one->open)
            continue;
        *one = (nb_incident_t){.open = true, .again_ns = 2 * stood_ns};
        note_wait(&one->stall, &loop->watched);
        ask(one, loop, stood_ns);
        return one;
    }
    return NULL;
}

/* How long it has stood at the place that it answered last. */
static uint64_t lasted_ns(const nb_incident_t *incident, uint64_t stood_ns)
{
    return stood_ns > incident->asked_ns ? stood_ns - incident->asked_ns : 0;
}

static void keep_longest(nb_incident_t *incident, uint64_t stood_ns)
{
    uint64_t ns = lasted_ns(incident, stood_ns);
    if (!incident->stall.place[0] || ns < incident->longest_ns)
        return;
    incident->longest = incident->stall;
    incident->longest_ns = ns;
}

/* The last answer may come from where it stood for an instant, even from our own C, which has no
 * place in the program. */
static void choose_longest(nb_incident_t *incident)
{
    nb_stall_t *stall = &incident->stall, *longest = &incident->longest;
    if (!longest->place[0] || !strcmp(stall->place, longest->place) ||
        (stall->place[0] && lasted_ns(incident, stall->stood_ns) >= incident->longest_ns))
        return;
    longest->stood_ns = stall->stood_ns;
    longest->computed_ns = stall->computed_ns;
    *stall = *longest;
    nb_probe_dismiss(index_of(incident));
}

void nb_incident_look(nb_incident_t *incident, const nb_loop_t *loop, uint64_t stood_ns)
{
    nb_stall_t *stall = &incident->stall;
    bool other = false;
    nb_probe_tell(index_of(incident), stall);
    if (stood_ns >= incident->again_ns) {
        char before[sizeof(stall->wait)];
        memcpy(before, stall->wait, sizeof(before));
        incident->again_ns = 2 * stood_ns;
        keep_longest(incident, stood_ns);
        note_wait(stall, &loop->watched);
        other = !stall->wait[0] || strcmp(before, stall->wait) ||
                incident->runs != nb_stall_scheduled(loop->watched.tid).runs;
    }
    if (other || !stall->place[0])
        ask(incident, loop, stood_ns);
}

/* The reporting thread holds the lock, and may be the loop's own thread with the GVL. So it must
 * not wait until somebody reads a full pipe, because the reader may be in this process. If the pipe
 * has room at all, a report fits. */
static bool has_room(int fd)
{
    struct pollfd file = {.fd = fd, .events = POLLOUT};
    return poll(&file, 1, 0) == 1 && file.revents == POLLOUT;
}

static void write_text(const char *text, int length, size_t size)
{
    if (length >= (int)size)
        length = (int)size - 1;
    (void)!write(STDERR_FILENO, text, (size_t)length);
}

/* Returns false if its thread only had no core. */
static bool report(nb_incident_t *incident)
{
    char text[1600];
    unsigned unreported = 0;
    nb_stall_t *stall = &incident->stall;
    nb_probe_tell(index_of(incident), stall);
    choose_longest(incident);
    if (nb_stall_had_no_core(stall))
        return false;
    stall->by_others = nb_stall_waited_for_gvl(stall);
    nb_stall_counts_add(stall, nb_clock_now());
    if (stall->by_others && stall->stood_ns < GVL_NS)
        return true;
    if (!has_room(STDERR_FILENO) || !nb_stall_is_news(stall, nb_clock_now(), &unreported))
        return true;
    write_text(text, nb_stall_text(stall, unreported, text, sizeof(text)), sizeof(text));
    incident->written = true;
    return true;
}

bool nb_incident_tell(nb_incident_t *incident)
{
    incident->told = report(incident);
    if (!incident->told)
        nb_incident_drop(incident);
    return incident->told;
}

/* The end counts under the place that the report has named. */
static void report_end(nb_incident_t *incident)
{
    char text[1600];
    nb_stall_counts_extend(&incident->stall, nb_clock_now());
    nb_probe_tell(index_of(incident), &incident->stall);
    if (incident->written && has_room(STDERR_FILENO))
        write_text(text, nb_stall_end_text(&incident->stall, text, sizeof(text)), sizeof(text));
}

void nb_incident_end(nb_incident_t *incident)
{
    if (incident->told) {
        report_end(incident);
        nb_incident_drop(incident);
    } else {
        incident->ended = LOOKS_FOR_NAME;
    }
}

void nb_incident_drop(nb_incident_t *incident)
{
    nb_probe_dismiss(index_of(incident));
    incident->open = false;
    incident->ended = 0;
}

/* Even a place may become known only after the end, so it waits once at least. */
static bool waits_for_name(nb_incident_t *incident)
{
    bool first = incident->ended-- == LOOKS_FOR_NAME;
    nb_probe_tell(index_of(incident), &incident->stall);
    return incident->ended && (first || incident->stall.unnamed);
}

bool nb_incidents_settle(bool at_once)
{
    bool some = false;
    for (nb_incident_t *one = incidents; one < incidents + NB_PROBES; one++) {
        if (!one->open || !one->ended)
            continue;
        if (!at_once && waits_for_name(one)) {
            some = true;
            continue;
        }
        report(one);
        nb_incident_drop(one);
    }
    return some;
}

void nb_incidents_forget(void)
{
    memset(incidents, 0, sizeof(incidents));
}
