/* mysql_wait.h - the MySQL client library waits in our loop. Ruby. Used by: init.c. */
#ifndef NB_MYSQL_WAIT_H
#define NB_MYSQL_WAIT_H

#include <ruby.h>

void Init_nb_mysql_wait(VALUE mNB);

#endif
