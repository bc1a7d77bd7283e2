/* hold_buffer.c - keeps an IO::Buffer in place while a hook moves bytes. Uses ruby.h.
 * Read after: hold_buffer.h. */
#include "hooks/hold_buffer.h"
#include "base/ptrmap.h"
#include <ruby/io/buffer.h>
#include <ruby/version.h>

/* Buffers that we have locked -> how many hooks use them now. Each buffer is on the stacks of these
 * hooks, so it is neither collected nor moved. Under the interpreter's lock. */
static nb_ptrmap_t holds;

static bool is_locked(VALUE buffer)
{
    void *base;
    size_t size;
    return rb_io_buffer_get_bytes(buffer, &base, &size) & RB_IO_BUFFER_LOCKED;
}

/* The last one unlocks. */
static VALUE let_go(VALUE buffer)
{
    uintptr_t count = (uintptr_t)nb_ptrmap_get(&holds, buffer);
    if (count > 1) {
        nb_ptrmap_put(&holds, buffer, (void *)(count - 1));
        return Qnil;
    }
    nb_ptrmap_remove(&holds, buffer);
    return rb_io_buffer_unlock(buffer);
}

VALUE nb_hold_buffer(VALUE buffer, VALUE (*body)(VALUE), VALUE argument)
{
    bool locked = is_locked(buffer);
    uintptr_t count = locked ? (uintptr_t)nb_ptrmap_get(&holds, buffer) : 0;
    if (locked && !count)
        return body(argument); /* every buffer that Ruby makes for its own reads and writes */
    if (nb_ptrmap_reserve(&holds) < 0)
        rb_memerror();
    if (!locked)
        rb_io_buffer_lock(buffer);
    nb_ptrmap_put(&holds, buffer, (void *)(count + 1));
    return rb_ensure(body, argument, let_go, buffer);
}

void nb_check_span(size_t size, size_t offset, size_t length)
{
    if (offset <= size && length <= size - offset)
        return;
#if RUBY_API_VERSION_CODE >= 30200
    rb_raise(rb_eArgError, "Specified offset+length is bigger than the buffer size!");
#else
    rb_raise(rb_eArgError, "Specified offset+length exceeds data size!");
#endif
}
