/* net_http_write.h - writes the head of a request as Net::HTTP does. Uses ruby.h. */
#ifndef NB_NET_HTTP_WRITE_H
#define NB_NET_HTTP_WRITE_H

#include <ruby.h>

void Init_nb_net_http_write(VALUE mNB);

#endif
