/* deadline.h - how long a client is waited for, and what is due then. Uses ruby.h.
 *
 *   the timer is for   set by                        due, it means
 *   FIRST_BYTE         opening, nb_conn_idle         closed without a word
 *   HEAD               the first bytes of a head     408
 *   BODY               a wait for more of the body   408; if a fiber waits, its read fails
 *   ANSWER             the application's start       RequestTimeoutError in its fiber
 *   WAITERS            fibers wait for the socket    the first one's limit: as BODY or WRITE
 *   WRITE              a wait until bytes are taken  closed, unless the client has taken any
 *   END                refusal, lingering            closed
 *
 * Read after: connection.h. Used by: body.c, reader.c, connection.c, events.c, request.c.
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

/* The one thing that the connection's timer is for from now on. */
void nb_conn_deadline(nb_conn_t *conn, nb_due_t due, uint64_t after_ns);
/* The response shall begin within after_ns from now, the clock as just read. */
void nb_conn_answer_by(nb_conn_t *conn, uint64_t now, uint64_t after_ns);
/* The response has begun: request_timeout is over. */
void nb_conn_answered(nb_conn_t *conn);

/* Notes how much of what was sent the client has not taken. */
void nb_conn_note_taken(nb_conn_t *conn);
typedef enum {
    NB_OVERDUE_NOTHING,
    NB_OVERDUE_READ,   /* its bytes are here after all */
    NB_OVERDUE_CANCEL, /* the request has taken too long */
    NB_OVERDUE_REFUSE, /* 408 */
    NB_OVERDUE_CLOSE
} nb_overdue_t;

/* The timer has fired: what is to be done. */
nb_overdue_t nb_conn_overdue(nb_conn_t *conn);

typedef enum {
    NB_WAITED, /* there was an event */
    NB_WAITED_TOO_LONG,
    NB_WAITED_IN_VAIN /* closed, or the request has ended: touch neither conn nor request */
} nb_waited_t;

/* The calling fiber waits for an event of this connection, for the body or (NB_DUE_WRITE) until the
 * client has taken what was sent. */
nb_waited_t nb_conn_wait(nb_conn_t *conn, nb_due_t due, uint64_t timeout_ns);
void nb_conn_wake_waiters(nb_conn_t *conn);
/* The request ends: whoever still waits for its socket is told so. */
void nb_conn_dismiss(nb_conn_t *conn);

#endif
