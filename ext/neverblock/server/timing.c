/* timing.c - how long requests waited and took, in histograms of fixed buckets. Uses ruby.h.
 *
 * Read after: timing.h, http/start.h.
 */
#include "server/timing.h"
#include "base/clock.h"
#include "http/start.h"
#include "server/body.h"

/* No proxy has received a request longer ago than this: its clock must be wrong. */
#define LONGEST_NS (600 * NB_NS_PER_S)

/* In microseconds; times above the last bound have a bucket of their own. */
static const uint64_t bounds[NB_TIMING_BOUNDS] = {
    500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000};

static void add(nb_histogram_t *histogram, uint64_t ns)
{
    int i = 0;
    while (i < NB_TIMING_BOUNDS && ns > bounds[i] * 1000)
        i++;
    histogram->counts[i]++;
    histogram->sum_ns += ns;
}

static uint64_t since(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* The time that the client took to send the body is not the server's. */
void nb_timing_proxied(nb_request_t *request, const char *bytes, size_t size)
{
    struct timespec now;
    uint64_t start_ns = nb_start_parse(bytes, size);
    if (!start_ns)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t waited_ns =
        since((uint64_t)now.tv_sec * NB_NS_PER_S + (uint64_t)now.tv_nsec, start_ns);
    if (waited_ns > LONGEST_NS)
        return;
    if (request->conn->body)
        waited_ns = since(waited_ns, request->conn->body->waited_ns);
    if (waited_ns > request->queued_ns)
        request->queued_ns = waited_ns;
}

void nb_timing_note(nb_server_t *server, const nb_request_t *request, bool broken)
{
    nb_timings_t *timings = &server->timings;
    uint64_t end_ns = request->ended_ns ? request->ended_ns : request->answered_ns;
    if (broken || !end_ns)
        end_ns = nb_loop_clock(server->loop);
    add(&timings->queue, request->queued_ns);
    add(&timings->application, since(end_ns, request->started_ns));
    if (request->answered_ns)
        add(&timings->first_byte,
            since(request->answered_ns, request->started_ns) + request->queued_ns);
}

static VALUE to_array(const nb_histogram_t *histogram)
{
    VALUE array = rb_ary_new();
    for (int i = 0; i <= NB_TIMING_BOUNDS; i++)
        rb_ary_push(array, ULL2NUM(histogram->counts[i]));
    return rb_ary_push(array, DBL2NUM((double)histogram->sum_ns / 1e9));
}

/* @!visibility private - for each the counts up to each bound and above the last one, then the sum
 *   in seconds. */
static VALUE rb_nb_core_histograms(VALUE self)
{
    nb_server_t *server = rb_check_typeddata(self, &nb_server_type);
    VALUE hash = rb_hash_new();
    rb_hash_aset(hash, ID2SYM(rb_intern("queue")), to_array(&server->timings.queue));
    rb_hash_aset(hash, ID2SYM(rb_intern("application")), to_array(&server->timings.application));
    rb_hash_aset(hash, ID2SYM(rb_intern("first_byte")), to_array(&server->timings.first_byte));
    return hash;
}

void nb_timing_init(void)
{
    VALUE array = rb_ary_new();
    for (int i = 0; i < NB_TIMING_BOUNDS; i++)
        rb_ary_push(array, DBL2NUM((double)bounds[i] / 1e6));
    /* Of the buckets of {#histograms}, in seconds; the last bucket has no bound. */
    rb_define_const(rb_cNBServerCore, "BOUNDS", rb_ary_freeze(array));
    rb_define_method(rb_cNBServerCore, "histograms", rb_nb_core_histograms, 0);
}
