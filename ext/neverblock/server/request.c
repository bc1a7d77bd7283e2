/* request.c - one request in its worker's fiber: the application, and what follows. Uses ruby.h.
 *
 * Read after: request.h.
 */
#include "server/request.h"
#include "base/clock.h"
#include "loop/wait.h"
#include "server/body.h"
#include "server/callbacks.h"
#include "server/deadline.h"
#include "server/env.h"
#include "server/events.h"
#include "server/exchange.h"
#include "server/input.h"
#include "server/output.h"
#include "server/response.h"
#include "server/spool.h"
#include "server/timing.h"
#include "server/fiber_reset.h"
#include <errno.h>

static ID id_call, id_report, id_log, id_at_end, id_leave, id_delete;
static VALUE tempfiles_key;

typedef struct {
    nb_request_t *request;
    const nb_incoming_t *incoming;
    nb_server_t *server;
    bool consumed; /* the bytes of the request are consumed */
    int leaves;    /* the jump tag by which the fiber is left afterwards, or 0 */
    VALUE error;   /* and its error, which ends the thread or the loop */
} run_t;

/* --- one request ------------------------------------------------------------------------------ */

static VALUE run_application(VALUE argument)
{
    run_t *run = (run_t *)argument;
    nb_request_t *request = run->request;
    VALUE env = nb_env_build(run->server, request, run->incoming);
    nb_reader_consume(request->conn, run->incoming);
    run->consumed = true;
    nb_conn_tell_gone(request->conn); /* it may have left while its request was queued */
    nb_env_set_input(request, run->incoming);
    VALUE triple = rb_funcallv(run->server->app, id_call, 1, &env);
    if (!request->hijacked && request->conn->state != NB_CONN_CLOSED)
        nb_response_send(request, triple);
    else
        nb_response_discard(triple);
    RB_GC_GUARD(triple);
    request->complete = true;
    return Qnil;
}

/* What ends the thread or the loop propagates; everything else ends only the request. The report of
 * an exit tells the server, which ends after the other requests. */
static bool passes_on(VALUE error)
{
    return !nb_is_exception(error) || RTEST(rb_obj_is_kind_of(error, rb_eSignal)) ||
           RTEST(rb_obj_is_kind_of(error, rb_path2class("NB::Cancelled")));
}

/* Takes what came out of a call that rb_protect made; what passes on does so after the request.
 * Returns what ends here, or nil. */
static VALUE take_error(run_t *run, int state)
{
    VALUE error = rb_errinfo();
    if (!state)
        return Qnil;
    if (nb_is_exception(error)) /* Ruby takes nothing else back */
        rb_set_errinfo(Qnil);
    if (!passes_on(error))
        return error;
    if (!run->leaves) {
        run->leaves = state;
        run->error = error;
    }
    run->request->conn->keep = false;
    return Qnil;
}

static VALUE report(VALUE argument)
{
    VALUE *values = (VALUE *)argument;
    return rb_funcallv(values[0], id_report, 2, values + 1);
}

static void report_error(run_t *run, VALUE error)
{
    VALUE values[] = {run->server->self, error, run->request->env ? run->request->env : Qnil};
    int state;
    if (NIL_P(error))
        return;
    rb_protect(report, (VALUE)values, &state);
    take_error(run, state);
}

static void answer_error(run_t *run, VALUE error)
{
    nb_server_t *server = run->server;
    nb_request_t *request = run->request;
    nb_conn_t *conn = request->conn;
    bool gone = conn->state == NB_CONN_CLOSED;
    if (!gone || !RTEST(rb_obj_is_kind_of(error, rb_eSystemCallError))) {
        server->counters.errors++;
        report_error(run, error);
    }
    if (!nb_response_take_back(request)) /* too late for a status: the connection breaks off */
        conn->keep = conn->keep && request->complete;
    else if (request->timed_out)
        nb_response_error(request, 503, "The request took longer than request_timeout allows.");
    else if (RTEST(rb_obj_is_kind_of(error, rb_const_get(rb_mNBServer, rb_intern("BodyError")))))
        nb_response_error(request, request->refused_body ? request->refused_body : 400,
                          "The request body did not arrive as announced, or has no room here.");
    else
        nb_response_error(request, 500, "Internal server error.");
}

/* --- after a request -------------------------------------------------------------------------- */

/* What the application let through, or why its response did not go out to its end, or nil. */
static VALUE failure_of(const run_t *run, VALUE error)
{
    const nb_request_t *request = run->request;
    if (!NIL_P(error))
        return error;
    if (run->leaves && nb_is_exception(run->error))
        return run->error;
    bool lost = request->conn->state == NB_CONN_CLOSED && !request->hijacked;
    return lost ? rb_syserr_new(EPIPE, "the response was not sent to its end") : Qnil;
}

static void callback_raised(void *run, int state)
{
    report_error(run, take_error(run, state));
}

/* After the last byte is with the kernel, or it is known that it never is. */
static void tell_finished(run_t *run, VALUE error)
{
    if (nb_callbacks_wanted(run->request))
        nb_callbacks_run(run->request, failure_of(run, error), callback_raised, run);
}

static VALUE log_access(VALUE argument)
{
    run_t *run = (run_t *)argument;
    nb_request_t *request = run->request;
    rb_funcall(run->server->self, id_log, 5, request->env, INT2FIX(request->status),
               ULL2NUM(request->sent_bytes), ULL2NUM(request->queued_ns),
               ULL2NUM(nb_loop_clock(run->server->loop) - request->started_ns));
    return Qnil;
}

static VALUE leave(VALUE unused)
{
    return rb_funcall(rb_path2class("NB::FiberState"), id_leave, 0);
}

/* Runs what is to run at the end of this piece of work, such as the return of a connection. If it
 * raises, the server says so; the next request finds the fiber like new all the same. */
static void leave_work(run_t *run)
{
    int state;
    if (!RTEST(rb_ivar_defined(rb_fiber_current(), id_at_end)))
        return;
    rb_protect(leave, Qnil, &state);
    report_error(run, take_error(run, state));
}

static void count_status(nb_server_t *server, int status)
{
    server->counters.requests++;
    server->counters.responses[(unsigned)status / 100 % 10]++;
}

static void close_io(run_t *run, VALUE io)
{
    int state = 0;
    if (io)
        rb_protect(rb_io_close, io, &state);
    take_error(run, state);
}

static void close_input(run_t *run)
{
    VALUE file = run->request->input_file;
    int kept = file ? nb_spool_keep(file) : -1;
    close_io(run, file);
    nb_spool_close(run->server->loop, kept);
}

static VALUE delete_tempfile(VALUE file)
{
    return rb_check_funcall(file, id_delete, 0, NULL);
}

/* What Rack::TempfileReaper does in Rails and under rackup. Elsewhere the parts of a multipart
 * upload would stay on the disk until Ruby collects garbage. */
static void delete_tempfiles(run_t *run)
{
    VALUE files = nb_callbacks_of(run->request, tempfiles_key);
    for (long i = 0; files && i < RARRAY_LEN(files); i++) {
        int state;
        rb_protect(delete_tempfile, RARRAY_AREF(files, i), &state);
        callback_raised(run, state);
    }
    RB_GC_GUARD(files);
}

static VALUE drain(VALUE conn)
{
    nb_conn_drain((nb_conn_t *)conn);
    return Qnil;
}

static void after_request(run_t *run, VALUE error)
{
    nb_request_t *request = run->request;
    nb_conn_t *conn = request->conn;
    int state = 0;
    if (conn->state != NB_CONN_CLOSED && nb_conn_flush(conn) == 0 && !nb_output_empty(conn) &&
        nb_callbacks_wanted(request)) { /* they want to know of the response's end */
        rb_protect(drain, (VALUE)conn, &state);
        take_error(run, state);
    }
    tell_finished(run, error);
    count_status(run->server, request->status);
    nb_timing_note(run->server, request, !NIL_P(error));
    if (run->server->options.log && request->env) {
        rb_protect(log_access, (VALUE)run, &state);
        take_error(run, state);
    }
    leave_work(run);
    close_input(run);
    delete_tempfiles(run);
    nb_loan_return(run->server, &request->loan);
    nb_buffer_free(&request->head);
    if (request->exchange)
        nb_exchange_end(request->exchange);
    nb_fiber_reset(run->server);
}

static VALUE nothing(VALUE unused)
{
    return Qnil;
}

static VALUE after_kill(VALUE run)
{
    after_request((run_t *)run, ((run_t *)run)->error);
    return Qnil;
}

/* A kill of a thread or a fiber is no exception. Ruby keeps it where it keeps `$!`, and we cannot
 * put it back there. Ruby itself does so after the second part of rb_ensure. */
static void after_broken_request(run_t *run)
{
    if (nb_is_exception(run->error))
        after_request(run, run->error);
    else
        rb_ensure(nothing, Qnil, after_kill, (VALUE)run);
}

static void leave_connection(const nb_request_t *request, bool goes_on)
{
    nb_conn_t *conn = request->conn;
    nb_conn_dismiss(conn);
    conn->request = NULL;
    if (conn->state == NB_CONN_CLOSED) {
        conn->server->tells->drained(conn->server);
        nb_conn_free(conn);
    } else if (goes_on && (request->ended || !conn->until_close)) {
        nb_conn_finish(conn);
    } else {
        nb_conn_close(conn);
    }
}

/* The application forked, and this is the child. The parent answers; here the process ends, as it
 * does when a child forked by a thread reaches the end of that thread. */
static void end_in_child(nb_request_t *request, int state)
{
    if (request->exchange)
        nb_exchange_end(request->exchange);
    if (state)
        rb_jump_tag(state);
    rb_exit(EXIT_SUCCESS);
}

void nb_request_run(nb_server_t *server, nb_conn_t *conn, const nb_incoming_t *incoming)
{
    nb_request_t request = {
        .conn = conn,
        .fiber = rb_fiber_current(),
        .started_ns = nb_loop_clock(server->loop),
    };
    run_t run = {.request = &request, .incoming = incoming, .server = server, .error = Qnil};
    int state = 0;
    request.queued_ns =
        request.started_ns > conn->since_ns ? request.started_ns - conn->since_ns : 0;
    conn->state = NB_CONN_RUN;
    conn->request = &request;
    conn->requests++;
    conn->more = incoming->head->flags & NB_HEAD_KEEP_ALIVE;
    conn->keep = conn->more && conn->requests < server->options.requests_per_connection;
    nb_list_append(&server->running, &request.link);
    nb_conn_answer_by(conn, request.started_ns, server->options.request_timeout_ns);
    if (nb_body_missing(conn))
        nb_input_await(server, &request);
    rb_protect(run_application, (VALUE)&run, &state);
    if (server->forked)
        end_in_child(&request, state);
    request.over = true;
    nb_forget_interrupts(server->loop);
    VALUE error = take_error(&run, state);
    bool broken = run.leaves;
    if (state)
        conn->keep = conn->keep && run.consumed; /* nobody knows where the next one begins */
    if (!NIL_P(error))
        answer_error(&run, error);
    if (state) /* otherwise nobody may close it, and the client waits */
        close_io(&run, request.socket);
    if (broken)
        after_broken_request(&run);
    else
        after_request(&run, error);
    nb_input_arrived(server, &request);
    nb_list_remove(&request.link);
    server->running_count--; /* this fiber is free for what the connection has sent meanwhile */
    leave_connection(&request, !broken);
    if (run.leaves) {
        if (nb_is_exception(run.error))
            rb_set_errinfo(run.error);
        rb_jump_tag(run.leaves);
    }
    server->running_count++; /* until its worker has looked for the next */
    RB_GC_GUARD(error);
    RB_GC_GUARD(run.error);
}

void nb_request_init(void)
{
    nb_callbacks_init();
    nb_fiber_reset_init();
    id_call = rb_intern("call");
    id_report = rb_intern("report_error");
    id_log = rb_intern("log_access");
    id_at_end = rb_intern("@neverblock_at_end"); /* NB::FiberState::AT_END */
    id_leave = rb_intern("leave");
    id_delete = rb_intern("close!"); /* of a Tempfile */
    tempfiles_key = nb_env_key("rack.tempfiles");
}
