/* date.h - the text of the Date field. Uses ruby.h. Read after: server.h. */
#ifndef NB_SERVER_DATE_H
#define NB_SERVER_DATE_H

#include "server/server.h"

/* Valid until the next call. */
const char *nb_server_date(nb_server_t *server);

#endif
