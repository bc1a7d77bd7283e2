/* net_http.h - what Net::HTTP's hot methods do, for plain cases. Uses ruby.h. Used by: init.c. */
#ifndef NB_NET_HTTP_H
#define NB_NET_HTTP_H

#include <ruby.h>

void Init_nb_net_http(VALUE mNB);

#endif
