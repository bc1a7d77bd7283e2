/* mysql_wait.h - lets the MySQL client library wait in our loop. Uses ruby.h.
 *
 * Read after: mysql_library.h.
 */
#ifndef NB_MYSQL_WAIT_H
#define NB_MYSQL_WAIT_H

#include "base/list.h"
#include "drivers/mysql_library.h"
#include "loop/loop.h"

/* One call into the library from a fiber of a loop. It lies on that fiber's C stack. */
typedef struct nb_mysql_call {
    nb_loop_t *loop;
    VALUE fiber, client;
    nb_mysql_t *mysql;
    VALUE raised;                /* in a wait; Qundef: nothing */
    bool refused;                /* from now on the library is told that its connection is gone */
    struct nb_mysql_call *outer; /* of the same fiber */
    nb_list_t link;              /* in `connecting` */
} nb_mysql_call_t;

/* From begin to end, the library's waits in this fiber are the loop's. What is raised in one is in
 * call->raised at the end. connects: the library opens the connection in this call. */
void nb_mysql_call_begin(nb_mysql_call_t *call, bool connects);
void nb_mysql_call_end(nb_mysql_call_t *call);

/* Between these two the fiber runs a block of the program's, and is in no call. An Enumerator may
 * leave that block for good: then its stack is freed, and the call lies there. Suspend returns the
 * call, or NULL. */
nb_mysql_call_t *nb_mysql_call_suspend(VALUE fiber);
void nb_mysql_call_resume(nb_mysql_call_t *call);

/* The call that is parked inside the library for this client, or NULL. With the GVL. */
nb_mysql_call_t *nb_mysql_parked_call(VALUE client);

/* To be called once, when the library is open. Returns whether TLS waits in the loop, too. */
bool nb_mysql_wait_init(void);

#endif
