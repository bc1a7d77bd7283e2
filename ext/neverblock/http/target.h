/* target.h - what a request line asks for: path and query, host of an absolute target. Pure C, no
 * allocation.
 *
 * Read after: head.h.
 */
#ifndef NB_HTTP_TARGET_H
#define NB_HTTP_TARGET_H

#include "head.h"

/* Judges and splits the target between at and end: sets form, target, path and query of head, and
 * host if the target names one. The method of head has been read before.
 * bytes - the first byte of the head
 * Returns 0, or NB_HEAD_BAD_TARGET. */
int nb_target_read(nb_head_t *head, const char *bytes, const char *at, const char *end);

/* uri-host [":" port], RFC 3986 3.2.2. An empty host passes: the Host field may be empty. */
int nb_target_good_authority(const char *at, const char *end);

#endif
