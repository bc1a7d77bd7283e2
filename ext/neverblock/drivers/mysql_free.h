/* mysql_free.h - mysql2's garbage is freed when its connection is idle. Uses ruby.h. Used by:
 * mysql_call.c.
 */
#ifndef NB_MYSQL_FREE_H
#define NB_MYSQL_FREE_H

#include <ruby.h>
#include <stdbool.h>

/* From now on, object is freed later where only the garbage collector would free it.
 *
 * object - a Mysql2::Statement or a streamed Mysql2::Result of client; again: nothing happens
 * client_offset - where in mysql2's struct of a client the MYSQL* is
 */
void nb_mysql_free_later(VALUE object, VALUE client, bool streams, size_t client_offset);

/* The result has been read to its end, or freed: it has nothing more to read from the server. */
void nb_mysql_free_has_read(VALUE result);

/* Frees what the garbage collector has found of this client, which may talk to the server. Does
 * nothing while an answer is expected or a streamed result is being read. With the GVL.
 *
 * done - asked before each: true ends it
 */
void nb_mysql_free_found(VALUE client, bool (*done)(void *), void *argument);

#endif
