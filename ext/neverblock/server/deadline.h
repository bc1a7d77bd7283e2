/* deadline.h - how long to wait for a client, and what happens after that. Uses ruby.h.
 *
 *   the timer is for   set by                        when due
 *   FIRST_BYTE         opening, nb_conn_idle         closed without an answer
 *   HEAD               the first bytes of a head     408
 *   BODY               a wait for more of the body   408; if a fiber waits, its read fails
 *   ANSWER             the application's start       RequestTimeoutError in its fiber
 *   WAITERS            fibers wait for the socket    the earliest limit: as BODY or WRITE
 *   WRITE              a wait until bytes are taken  closed, unless the client has taken any
 *   END                refusal, lingering            closed
 *
 * Read after: connection.h.
 */
#ifndef NB_SERVER_DEADLINE_H
#define NB_SERVER_DEADLINE_H

#include "server/connection.h"

/* What a connection's timer is for. */
typedef enum {
    NB_DUE_FIRST_BYTE,
    NB_DUE_HEAD,
    NB_DUE_BODY,
    NB_DUE_ANSWER,
    NB_DUE_WAITERS, /* each has a limit of its own */
    NB_DUE_WRITE,
    NB_DUE_END
} nb_due_t;

/* Sets the one purpose of the connection's timer from now on. */
void nb_conn_deadline(nb_conn_t *conn, nb_due_t due, uint64_t after_ns);
/* The response must begin within after_ns from now, by the clock as just read. */
void nb_conn_answer_by(nb_conn_t *conn, uint64_t now, uint64_t after_ns);
/* The response has begun: request_timeout no longer applies. */
void nb_conn_answered(nb_conn_t *conn);

/* Records how many of the sent bytes the client has not acknowledged. */
void nb_conn_note_taken(nb_conn_t *conn);
typedef enum {
    NB_OVERDUE_NOTHING,
    NB_OVERDUE_READ,   /* its bytes have arrived meanwhile */
    NB_OVERDUE_CANCEL, /* the request has taken too long */
    NB_OVERDUE_REFUSE, /* 408 */
    NB_OVERDUE_CLOSE
} nb_overdue_t;

/* The timer has fired: returns what to do. */
nb_overdue_t nb_conn_overdue(nb_conn_t *conn);

typedef enum {
    NB_WAITED, /* there was an event */
    NB_WAITED_TOO_LONG,
    NB_WAITED_IN_VAIN /* closed, or the request has ended: touch neither conn nor request */
} nb_waited_t;

/* The calling fiber waits for an event of this connection: for the body or (NB_DUE_WRITE) until the
 * client has taken what was sent. */
nb_waited_t nb_conn_wait(nb_conn_t *conn, nb_due_t due, uint64_t timeout_ns);
/* Wakes those who wait for one of these events: the body for NB_READABLE, room for NB_WRITABLE. */
void nb_conn_wake_waiters(nb_conn_t *conn, int mask);
/* The request ends: tells all who still wait for its socket. */
void nb_conn_dismiss(nb_conn_t *conn);

#endif
