/* mysql_free.h - frees mysql2's garbage once its connection is idle. Uses ruby.h. */
#ifndef NB_MYSQL_FREE_H
#define NB_MYSQL_FREE_H

#include <ruby.h>
#include <stdbool.h>

/* From now on, object is freed later than the garbage collector alone would free it.
 *
 * object - a Mysql2::Statement or a streamed Mysql2::Result of client; a second call does nothing
 * client_offset - where in mysql2's struct of a client the MYSQL* is
 */
void nb_mysql_free_later(VALUE object, VALUE client, bool streams, size_t client_offset);

/* Notes that the result was read to its end, or freed: it reads nothing more from the server. */
void nb_mysql_free_has_read(VALUE result);

/* Frees what the garbage collector has found of this client. This may talk to the server, so it
 * does nothing while an answer is expected or a streamed result is being read. With the GVL.
 *
 * done - asked before each object; true ends the call
 */
void nb_mysql_free_found(VALUE client, bool (*done)(void *), void *argument);

#endif
