/* sqlite_free.h - NB::Drivers::SQLiteFree: frees sqlite3's garbage later. Uses ruby.h. */
#ifndef NB_SQLITE_FREE_H
#define NB_SQLITE_FREE_H

#include <ruby.h>

void Init_nb_sqlite_free(VALUE mNB);

#endif
