/* descriptor.h - the fd of an IO: obtained, checked again after a wait, given up. Uses ruby.h.
 *
 * A number stands for a file only until others run: in a park, a yield, without the GVL, in any
 * Ruby method. So it is obtained after all of these, and checked again if one came in between.
 */
#ifndef NB_HOOKS_DESCRIPTOR_H
#define NB_HOOKS_DESCRIPTOR_H

#include "loop/wait.h"
#include <ruby/io.h>

typedef struct {
    nb_loop_t *loop;
    VALUE io; /* from nb_io_of */
    int fd;
    unsigned closings; /* of the number, as the fd table has counted them */
    nb_slot_t *slot;   /* valid until others run */
} nb_descriptor_t;

/* The IO of a hook's argument, which may mean calling its to_io. TypeError if it is none. */
VALUE nb_io_of(VALUE io);

/* Whether the IO is closed. Calls no Ruby. */
bool nb_io_is_closed(VALUE io);

/* FMODE_READABLE, FMODE_WRITABLE and others, of an open IO. */
int nb_io_mode(VALUE io);

/* Whether it is a socket of the socket library. */
bool nb_io_is_socket(VALUE io);

/* Whether close(2) of a socket would wait until the peer has taken what is left to send
 * (SO_LINGER). */
bool nb_fd_lingers(int fd);

/* Raises for an fd that can have no slot, and IOError as a thread's wait does. */
NORETURN(void nb_descriptor_has_no_slot(const nb_descriptor_t *descriptor));
NORETURN(void nb_descriptor_is_lost(void));

static inline void nb_descriptor_find_slot(nb_descriptor_t *descriptor)
{
    descriptor->slot = nb_fdtable_slot(&descriptor->loop->fds, descriptor->fd);
    if (!descriptor->slot)
        nb_descriptor_has_no_slot(descriptor);
}

/* Fills fd from io. Raises IOError for a closed one. Calls no Ruby. */
static inline void nb_descriptor_take(nb_descriptor_t *descriptor)
{
    descriptor->fd = rb_io_descriptor(descriptor->io);
    nb_descriptor_find_slot(descriptor);
    descriptor->closings = descriptor->slot->closings;
}

/* After others may have run: raises IOError unless the IO still has the same file. */
static inline void nb_descriptor_check(nb_descriptor_t *descriptor)
{
    nb_descriptor_find_slot(descriptor);
    if (descriptor->slot->closings != descriptor->closings ||
        rb_io_descriptor(descriptor->io) != descriptor->fd)
        nb_descriptor_is_lost();
}

/* What is known about the fd holds for this IO object only; another object may be another file. */
static inline nb_slot_t *nb_descriptor_slot(const nb_descriptor_t *descriptor)
{
    nb_slot_t *slot = descriptor->slot;
    if (slot->tag != descriptor->io) {
        slot->tag = descriptor->io;
        slot->dry = slot->stream = slot->misses = slot->unverified = 0;
    }
    return slot;
}

void Init_nb_hooks_descriptor(VALUE cScheduler);

#endif
