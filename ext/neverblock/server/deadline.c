/* deadline.c - how long to wait for a client: timers, and the fibers that wait. Uses ruby.h.
 *
 * A connection has one timer, and conn->due says what it is for. While fibers of its request wait
 * for the socket, each has a limit of its own, and the timer is set to the earliest; meanwhile the
 * application's time for its answer stands still. When the timer fires, nb_conn_overdue says what
 * to do, and events.c does it.
 *
 * Read after: deadline.h, request.h.
 */
#include "server/deadline.h"
#include "base/clock.h"
#include "base/portable.h"
#include "loop/wait.h"
#include "server/request.h"
#include <sys/socket.h>

#define QUEUED_NS UINT64_C(1000000000) /* extra time for a client that was ready before us */

static uint64_t deadline_of(const nb_conn_t *conn, uint64_t after_ns)
{
    return after_ns == NB_NEVER ? NB_NEVER : nb_loop_clock(conn->server->loop) + after_ns;
}

/* Moving a deadline later costs nothing: the timer fires early once and is set again. */
static void set_deadline(nb_conn_t *conn, nb_due_t due, uint64_t deadline_ns)
{
    if (conn->state == NB_CONN_CLOSED) /* its worker still runs; the timer would outlive both */
        return;
    conn->due = due;
    conn->deadline_ns = deadline_ns;
    if (deadline_ns == NB_NEVER)
        return;
    if (conn->timer.index == NB_TIMER_IDLE || conn->timer.when_ns > deadline_ns)
        nb_loop_set_timer(conn->server->loop, &conn->timer, deadline_ns);
}

void nb_conn_deadline(nb_conn_t *conn, nb_due_t due, uint64_t after_ns)
{
    set_deadline(conn, due, deadline_of(conn, after_ns));
}

void nb_conn_answer_by(nb_conn_t *conn, uint64_t now, uint64_t after_ns)
{
    set_deadline(conn, NB_DUE_ANSWER, after_ns == NB_NEVER ? NB_NEVER : now + after_ns);
}

/* --- fibers that wait for the socket --------------------------------------------------------- */

/* A waiting fiber, on its own stack. */
typedef struct {
    nb_list_t link; /* conn->waiters */
    nb_park_t *park;
    nb_due_t due;
    uint64_t timeout_ns, deadline_ns;
    bool woken, late, dismissed;
} waiter_t;

static waiter_t *waiter_at(nb_list_t *item)
{
    return nb_container_of(item, waiter_t, link);
}

/* A client that reads nothing must not get a new write_timeout each time it writes. */
void nb_conn_wake_waiters(nb_conn_t *conn, int mask)
{
    for (nb_list_t *item = conn->waiters.next; item != &conn->waiters; item = item->next) {
        waiter_t *waiter = waiter_at(item);
        if (!(mask & (waiter->due == NB_DUE_WRITE ? NB_WRITABLE : NB_READABLE)))
            continue;
        waiter->woken = true;
        nb_wake(waiter->park, NB_WOKEN);
    }
}

static void expect_first(nb_conn_t *conn)
{
    uint64_t first_ns = NB_NEVER;
    for (nb_list_t *item = conn->waiters.next; item != &conn->waiters; item = item->next)
        if (!waiter_at(item)->woken && waiter_at(item)->deadline_ns < first_ns)
            first_ns = waiter_at(item)->deadline_ns;
    set_deadline(conn, NB_DUE_WAITERS, first_ns);
}

/* The application's time stands still while it waits for its client. */
static void stop_clock(nb_conn_t *conn)
{
    nb_request_t *request = conn->request;
    uint64_t now = nb_loop_clock(conn->server->loop);
    if (conn->due != NB_DUE_ANSWER || conn->deadline_ns == NB_NEVER)
        request->left_ns = NB_NEVER;
    else
        request->left_ns = conn->deadline_ns > now ? conn->deadline_ns - now : 0;
}

nb_waited_t nb_conn_wait(nb_conn_t *conn, nb_due_t due, uint64_t timeout_ns)
{
    nb_park_t park;
    waiter_t waiter = {.park = &park, .due = due, .timeout_ns = timeout_ns};
    int state = 0;
    if (conn->state == NB_CONN_CLOSED || !conn->request)
        return NB_WAITED_IN_VAIN;
    waiter.deadline_ns = deadline_of(conn, timeout_ns);
    if (nb_list_empty(&conn->waiters))
        stop_clock(conn);
    nb_park_init(conn->server->loop, &park, NB_PARK_IO);
    nb_list_append(&conn->waiters, &waiter.link);
    expect_first(conn);
    rb_protect(nb_park_value, (VALUE)&park, &state);
    if (!waiter.dismissed) {
        nb_list_remove(&waiter.link);
        if (!nb_list_empty(&conn->waiters))
            expect_first(conn);
        else
            nb_conn_deadline(conn, NB_DUE_ANSWER,
                             conn->request->head_sent ? NB_NEVER : conn->request->left_ns);
    }
    if (state)
        rb_jump_tag(state);
    if (waiter.dismissed || conn->state == NB_CONN_CLOSED)
        return NB_WAITED_IN_VAIN;
    return waiter.late ? NB_WAITED_TOO_LONG : NB_WAITED;
}

void nb_conn_answered(nb_conn_t *conn)
{
    if (conn->due == NB_DUE_ANSWER)
        nb_conn_deadline(conn, NB_DUE_ANSWER, NB_NEVER);
}

void nb_conn_dismiss(nb_conn_t *conn)
{
    while (!nb_list_empty(&conn->waiters)) {
        waiter_t *waiter = waiter_at(conn->waiters.next);
        nb_list_remove(&waiter->link);
        waiter->dismissed = true;
        nb_wake(waiter->park, NB_WOKEN);
    }
}

/* --- what is due ------------------------------------------------------------------------------ */

void nb_conn_note_taken(nb_conn_t *conn)
{
    conn->unacknowledged = nb_unacknowledged_bytes(conn->watch.fd);
}

/* The socket becomes writable only when much of it is free. A slow client may need longer for that,
 * although it reads all the while. So this checks whether it has acknowledged a byte since, and
 * records the present number. If others carry the bytes, they check that.
 */
static bool takes_bytes(nb_conn_t *conn)
{
    int before = conn->unacknowledged;
    nb_conn_note_taken(conn);
    return conn->transport || conn->unacknowledged != before;
}

static nb_overdue_t time_out(nb_conn_t *conn, nb_overdue_t overdue)
{
    conn->server->counters.timeouts++;
    return overdue;
}

static nb_overdue_t first_byte_overdue(nb_conn_t *conn)
{
    char byte;
    if (recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
        return NB_OVERDUE_CLOSE;
    /* The bytes came in time, while we computed: timers are checked before the kernel is asked. */
    conn->readable = true;
    nb_conn_deadline(conn, NB_DUE_FIRST_BYTE, QUEUED_NS);
    return NB_OVERDUE_READ;
}

static nb_overdue_t answer_overdue(nb_conn_t *conn)
{
    nb_request_t *request = conn->request;
    if (request->timed_out || request->head_sent)
        return NB_OVERDUE_NOTHING;
    request->timed_out = true;
    return time_out(conn, NB_OVERDUE_CANCEL);
}

static nb_overdue_t waiters_overdue(nb_conn_t *conn)
{
    uint64_t now = conn->server->loop->now_ns;
    for (nb_list_t *item = conn->waiters.next; item != &conn->waiters; item = item->next) {
        waiter_t *waiter = waiter_at(item);
        if (waiter->deadline_ns > now || waiter->woken)
            continue;
        if (waiter->due == NB_DUE_WRITE && takes_bytes(conn)) {
            waiter->deadline_ns = deadline_of(conn, waiter->timeout_ns);
            continue;
        }
        if (waiter->due == NB_DUE_WRITE)
            return time_out(conn, NB_OVERDUE_CLOSE);
        conn->server->counters.timeouts++;
        waiter->late = waiter->woken = true;
        waiter->deadline_ns = NB_NEVER;
        nb_wake(waiter->park, NB_WOKEN);
    }
    expect_first(conn);
    return NB_OVERDUE_NOTHING;
}

static nb_overdue_t write_overdue(nb_conn_t *conn)
{
    if (!takes_bytes(conn))
        return time_out(conn, NB_OVERDUE_CLOSE);
    nb_conn_deadline(conn, NB_DUE_WRITE, conn->server->options.write_timeout_ns);
    return NB_OVERDUE_NOTHING;
}

/* While queued it waits for us; the client is not late. */
static bool put_off(nb_conn_t *conn)
{
    if (nb_list_empty(&conn->queue))
        return false;
    nb_conn_deadline(conn, (nb_due_t)conn->due, QUEUED_NS);
    return true;
}

nb_overdue_t nb_conn_overdue(nb_conn_t *conn)
{
    nb_server_t *server = conn->server;
    if (conn->deadline_ns == NB_NEVER)
        return NB_OVERDUE_NOTHING;
    if (conn->deadline_ns > server->loop->now_ns) {
        nb_loop_add_timer(server->loop, &conn->timer, conn->deadline_ns);
        return NB_OVERDUE_NOTHING;
    }
    switch ((nb_due_t)conn->due) {
    case NB_DUE_FIRST_BYTE:
        return put_off(conn) ? NB_OVERDUE_NOTHING : first_byte_overdue(conn);
    case NB_DUE_HEAD:
    case NB_DUE_BODY:
        return put_off(conn) ? NB_OVERDUE_NOTHING : time_out(conn, NB_OVERDUE_REFUSE);
    case NB_DUE_ANSWER:
        return answer_overdue(conn);
    case NB_DUE_WAITERS:
        return waiters_overdue(conn);
    case NB_DUE_WRITE:
        return write_overdue(conn);
    case NB_DUE_END:
        break;
    }
    return NB_OVERDUE_CLOSE;
}
