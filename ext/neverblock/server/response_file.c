/* response_file.c - opens the file that is a body, for sendfile. Uses ruby.h.
 *
 * Read after: response_file.h.
 */
#include "server/response_file.h"
#include "hooks/descriptor.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static ID id_to_path, id_pos;

static VALUE call_to_path(VALUE body)
{
    return rb_funcallv(body, id_to_path, 0, NULL);
}

/* A File without a name raises: that of a large request body, one made by O_TMPFILE. */
static VALUE without_path(VALUE unused, VALUE error)
{
    return Qnil;
}

/* The each of a File begins at its position. Returns false if only each knows what it gives: a File
 * that is closed or cannot be read raises, and one with bytes in its buffer may have got them from
 * ungetbyte. */
static bool find_position(VALUE body, struct stat *own, off_t *at)
{
    if (nb_io_is_closed(body) || !(nb_io_mode(body) & FMODE_READABLE) ||
        rb_io_read_pending(RFILE(body)->fptr) || fstat(rb_io_descriptor(body), own) < 0 ||
        !S_ISREG(own->st_mode))
        return false;
    *at = NUM2OFFT(rb_funcallv(body, id_pos, 0, NULL)); /* writes what the File still holds */
    return true;
}

/* Files of /proc have the size 0, those of /sys 4096, whatever they contain; and neither occupies a
 * block. Nor does a sparse file, and where data are kept beside the name, a small one. */
static bool has_another_size(int fd, const struct stat *found)
{
    char byte;
    if (found->st_blocks)
        return false;
    return (pread(fd, &byte, 1, found->st_size ? found->st_size - 1 : 0) > 0) == !found->st_size;
}

/* Opening a FIFO waits for its other end, and opening a device may do anything. */
static int open_regular(const char *path, struct stat *found)
{
    if (stat(path, found) < 0 || !S_ISREG(found->st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 ||
        (fstat(fd, found) == 0 && S_ISREG(found->st_mode) && !has_another_size(fd, found)))
        return fd;
    close(fd);
    return -1;
}

bool nb_response_file_open(nb_response_file_t *file, const nb_response_head_t *head, VALUE body)
{
    struct stat own, found;
    off_t at = 0;
    if (head->coded || !rb_respond_to(body, id_to_path))
        return false;
    if (body == head->request->input_file) /* its room is counted as free when the request ends */
        return false;
    VALUE path = rb_rescue2(call_to_path, body, without_path, Qnil, rb_eIOError, (VALUE)0);
    if (NIL_P(path)) /* a wrapper of a body that has no file */
        return false;
    path = rb_get_path(path); /* Rails' send_file hands on what it was given, such as a Pathname */
    bool is_file = RB_TYPE_P(body, T_FILE);
    if (is_file && !find_position(body, &own, &at))
        return false;
    int fd = open_regular(StringValueCStr(path), &found);
    if (fd < 0)
        return false;
    uint64_t size = found.st_size > at ? (uint64_t)(found.st_size - at) : 0;
    /* Another file may have the File's path by now. */
    if ((is_file && (own.st_dev != found.st_dev || own.st_ino != found.st_ino)) ||
        (head->length != NB_LENGTH_UNKNOWN && head->length != size)) {
        close(fd);
        return false;
    }
    *file = (nb_response_file_t){.fd = fd, .at = at, .size = size};
    return true;
}

void nb_response_file_init(void)
{
    id_to_path = rb_intern("to_path");
    id_pos = rb_intern("pos");
}
