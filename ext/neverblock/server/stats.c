/* stats.c - what a server reports about itself: counters, and running requests. Uses ruby.h.
 *
 * Read after: stats.h.
 */
#include "server/stats.h"
#include "base/clock.h"
#include "hooks/hooks.h"
#include "server/request.h"

/* @!visibility private */
static VALUE rb_nb_core_stats(VALUE self)
{
    nb_server_t *server = rb_check_typeddata(self, &nb_server_type);
    const nb_server_counters_t *counters = &server->counters;
    VALUE hash = rb_hash_new();
    nb_set_count(hash, "connections", server->connection_count);
    nb_set_count(hash, "running", server->running_count);
    nb_set_count(hash, "queued", server->runnable_count);
    nb_set_count(hash, "fibers", server->worker_count);
    nb_set_count(hash, "fibers_max", server->options.fibers);
    nb_set_count(hash, "accepted", counters->accepted);
    nb_set_count(hash, "requests", counters->requests);
    nb_set_count(hash, "responses_1xx", counters->responses[1]);
    nb_set_count(hash, "responses_2xx", counters->responses[2]);
    nb_set_count(hash, "responses_3xx", counters->responses[3]);
    nb_set_count(hash, "responses_4xx", counters->responses[4]);
    nb_set_count(hash, "responses_5xx", counters->responses[5]);
    nb_set_count(hash, "refused", counters->refused);
    nb_set_count(hash, "rejected_503", counters->rejected_503);
    nb_set_count(hash, "timeouts", counters->timeouts);
    nb_set_count(hash, "resets", counters->resets);
    nb_set_count(hash, "errors", counters->errors);
    nb_set_count(hash, "bodies_memory_bytes", server->lent.memory_bytes);
    nb_set_count(hash, "bodies_file_bytes", server->lent.file_bytes);
    nb_set_count(hash, "request_bytes", counters->request_bytes);
    nb_set_count(hash, "response_bytes", counters->response_bytes);
    nb_set_count(hash, "queue_us_max", counters->queue_ns_max / 1000);
    rb_hash_aset(hash, ID2SYM(rb_intern("draining")), server->draining ? Qtrue : Qfalse);
    return hash;
}

/* @!visibility private - [[env, fiber, age in seconds], …] of the running requests. */
static VALUE rb_nb_core_running(VALUE self)
{
    nb_server_t *server = rb_check_typeddata(self, &nb_server_type);
    VALUE all = rb_ary_new();
    for (nb_list_t *item = server->running.next; item != &server->running; item = item->next) {
        nb_request_t *request = nb_container_of(item, nb_request_t, link);
        uint64_t age_ns = nb_loop_clock(server->loop) - request->started_ns;
        if (request->env)
            rb_ary_push(all, rb_ary_new_from_args(3, request->env, request->fiber,
                                                  DBL2NUM((double)age_ns / 1e9)));
    }
    return all;
}

void nb_stats_init(void)
{
    rb_define_method(rb_cNBServerCore, "stats", rb_nb_core_stats, 0);
    rb_define_method(rb_cNBServerCore, "running", rb_nb_core_running, 0);
}
