/* delayd_answer.h - answers of the delay server. Pure C. Read after: delayd_connection.h.
 *
 * They are gathered in the server's shared buffer during one turn of a connection, then sent at
 * once.
 *
 * Whatever sends may leave the state WRITING (the socket is full) or BROKEN (the peer is gone).
 */
#ifndef NB_DELAYD_ANSWER_H
#define NB_DELAYD_ANSWER_H

#include "delayd/delayd_connection.h"

/* True if the answer to the request can be added to those gathered so far. Sends these first if
 * they fill the buffer, or if what comes next takes long and they should not wait for it. False if
 * they could not be sent: then leave the request for a later turn. */
bool nb_delayd_answer_room(nb_delayd_connection_t *conn, const nb_delayd_request_t *request);

/* Adds the answer to conn->request, after nb_delayd_answer_room; a long body is sent from here. */
void nb_delayd_answer_ok(nb_delayd_connection_t *conn);

/* Adds a 400 that names the problem. Then the connection closes. */
void nb_delayd_answer_bad(nb_delayd_connection_t *conn, const char *problem);

/* Sends what was gathered. What the socket does not take, the connection keeps. */
void nb_delayd_answer_send(nb_delayd_connection_t *conn);

/* Sends more of what a WRITING connection has left. True if all is sent, or the peer is gone. */
bool nb_delayd_answer_resume(nb_delayd_connection_t *conn);

#endif
