/* input.c - the form in which the application gets a request body. Uses ruby.h.
 *
 * Read after: input.h.
 */
#include "server/input.h"
#include "server/request.h"
#include <ruby/io.h>
#include <unistd.h>

#define PART_BYTES 65536

static VALUE cStringIO;
static ID id_new, id_for_fd;

VALUE nb_input_of(VALUE body)
{
    return rb_funcallv(cStringIO, id_new, 1, &body);
}

static VALUE stored_part(nb_body_t *body)
{
    VALUE part = rb_str_buf_new(PART_BYTES);
    ssize_t size = pread(body->spool, RSTRING_PTR(part), PART_BYTES, body->taken);
    if (size < 0)
        rb_sys_fail("NB::Server: reading the stored request body");
    rb_str_set_len(part, size);
    body->taken += size;
    return size ? part : Qnil;
}

VALUE nb_body_part(nb_conn_t *conn)
{
    nb_buffer_t *memory = &conn->body->memory;
    if (conn->body->spool >= 0)
        return stored_part(conn->body);
    if (!memory->size)
        return Qnil;
    VALUE part = rb_str_new(memory->bytes, (long)memory->size);
    memory->size = 0;
    return part;
}

void nb_body_copy(const nb_body_t *body, VALUE string)
{
    char bytes[4096];
    ssize_t size;
    for (off_t at = body->taken;
         body->spool >= 0 && (size = pread(body->spool, bytes, sizeof(bytes), at)) > 0; at += size)
        rb_str_cat(string, bytes, size);
    rb_str_cat(string, body->memory.bytes, (long)body->memory.size);
}

/* Libraries ask a File for its path, such as Nokogiri and aws-sigv4, and without one it raises. By
 * this name the body can be opened as long as it is open here. */
static VALUE file_of(int fd)
{
    VALUE path = rb_sprintf("/dev/fd/%d", fd);
    VALUE arguments[] = {INT2NUM(fd), rb_str_new_cstr("rb"), rb_hash_new()};
#ifdef HAVE_RB_IO_TIMEOUT /* Ruby 3.2 */
    rb_hash_aset(arguments[2], ID2SYM(rb_intern("path")), path);
    return rb_funcallv_kw(rb_cFile, id_for_fd, 3, arguments, RB_PASS_KEYWORDS);
#else
    VALUE file = rb_funcallv(rb_cFile, id_for_fd, 2, arguments);
    RFILE(file)->fptr->pathv = rb_str_freeze(path);
    return file;
#endif
}

VALUE nb_body_input(nb_conn_t *conn)
{
    nb_body_t *body = conn->body;
    int fd = body->spool;
    VALUE bytes = fd < 0 ? rb_str_new(body->memory.bytes, (long)body->memory.size) : Qnil;
    conn->request->loan = body->loan;
    body->loan = (nb_loan_t){0};
    body->spool = -1;
    nb_body_free(conn); /* before any Ruby code, in which the connection may end */
    if (fd < 0)
        return nb_input_of(bytes);
    lseek(fd, 0, SEEK_SET);
    rb_update_max_fd(fd);
    return file_of(fd);
}

void nb_input_await(nb_server_t *server, nb_request_t *request)
{
    request->awaits_body = true;
    server->body_count++;
}

void nb_input_arrived(nb_server_t *server, nb_request_t *request)
{
    server->body_count -= request->awaits_body;
    request->awaits_body = false;
}

void nb_input_init(void)
{
    id_new = rb_intern("new");
    id_for_fd = rb_intern("for_fd");
    rb_require("stringio");
    cStringIO = rb_path2class("StringIO");
    rb_gc_register_mark_object(cStringIO);
}
