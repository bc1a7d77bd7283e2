/* net_http.h - what Net::HTTP's hot methods do, for plain cases. Uses ruby.h. Used by: init.c,
 * net_http_write.c. */
#ifndef NB_NET_HTTP_H
#define NB_NET_HTTP_H

#include <ruby.h>
#include <stdbool.h>

/* Whether these are what they were at first. methods: an Array of class, name and UnboundMethod,
 * again and again. */
bool nb_net_http_are_stock(VALUE methods);

void Init_nb_net_http(VALUE mNB);

#endif
