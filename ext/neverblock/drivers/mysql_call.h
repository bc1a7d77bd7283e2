/* mysql_call.h - mysql2's calls into its library. Uses ruby.h. */
#ifndef NB_MYSQL_CALL_H
#define NB_MYSQL_CALL_H

#include <ruby.h>

void Init_nb_mysql_call(VALUE mNB);

#endif
