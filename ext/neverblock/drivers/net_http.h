/* net_http.h - replaces Net::HTTP's hot methods for plain cases. Uses ruby.h. */
#ifndef NB_NET_HTTP_H
#define NB_NET_HTTP_H

#include <ruby.h>
#include <stdbool.h>

/* Whether these methods are still the original ones. methods: a flat Array of class, name and
 * UnboundMethod, repeated. */
bool nb_net_http_are_stock(VALUE methods);

void Init_nb_net_http(VALUE mNB);

#endif
