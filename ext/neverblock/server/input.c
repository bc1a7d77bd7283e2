/* input.c - request bodies: in memory while small, then in an unlinked file. Ruby.
 *
 * Read after: server.h, http/chunked.h. Used by: connection.c, env.c, exchange.c.
 */
#include "server/server.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ruby/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BODY_SHARE 16 /* of the memory for large bodies, one may have this part */

static VALUE cStringIO;
static ID id_new, id_for_fd;

static int open_nameless(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    char name[PATH_MAX]; /* overlayfs of older kernels has no O_TMPFILE */
    snprintf(name, sizeof(name), "%s/neverblock-XXXXXX", folder);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

/* Where Ruby's Tempfile would be. */
static int open_spool(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = folder && *folder ? open_nameless(folder) : -1;
    return fd < 0 ? open_nameless(P_tmpdir) : fd;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return true;
}

int nb_body_start(nb_conn_t *conn, const nb_head_t *head)
{
    const nb_server_options_t *options = &conn->server->options;
    nb_body_t *body = calloc(1, sizeof(*body));
    if (!body)
        return -ENOMEM;
    body->spool = -1;
    body->expected = head->content_length;
    body->is_chunked = head->flags & NB_HEAD_CHUNKED;
    body->held = head->flags & NB_HEAD_EXPECT_CONTINUE;
    body->streamed = options->body_streaming &&
                     (body->is_chunked || body->expected > options->body_memory_bytes);
    nb_chunked_start(&body->chunked);
    conn->body = body;
    return 0;
}

/* What is beyond its own allowance was taken from the server's. */
static void free_memory(nb_conn_t *conn)
{
    conn->server->bodies_bytes -= conn->body->borrowed;
    conn->body->borrowed = 0;
    nb_buffer_free(&conn->body->memory);
}

void nb_body_free(nb_conn_t *conn)
{
    nb_body_t *body = conn->body;
    if (!body)
        return;
    if (body->spool >= 0)
        close(body->spool);
    free_memory(conn);
    free(body);
    conn->body = NULL;
}

/* Whether so many bytes more may be in memory: by the body's own allowance, or as a loan from the
 * server's, of which one body gets a share at most. */
static bool fits_memory(nb_conn_t *conn, size_t size)
{
    nb_server_t *server = conn->server;
    nb_body_t *body = conn->body;
    uint64_t after = body->memory.size + size, total = server->options.bodies_memory_bytes;
    if (after <= server->options.body_memory_bytes)
        return true;
    if (after > total / BODY_SHARE || server->bodies_bytes + size > total)
        return false;
    server->bodies_bytes += size;
    body->borrowed += size;
    return true;
}

/* Returns 0 or a negative HTTP status. */
static int add(nb_conn_t *conn, nb_body_t *body, const char *bytes, size_t size)
{
    const nb_server_options_t *options = &conn->server->options;
    body->received += size;
    if (body->received > options->body_max_bytes)
        return -413;
    if (body->spool < 0 && !body->streamed && !fits_memory(conn, size)) {
        body->spool = open_spool();
        if (body->spool < 0 || !write_all(body->spool, body->memory.bytes, body->memory.size))
            return -507;
        free_memory(conn);
    }
    if (body->spool >= 0)
        return write_all(body->spool, bytes, size) ? 0 : -507;
    return nb_buffer_append(&body->memory, bytes, size) < 0 ? -503 : 0;
}

static ssize_t feed_chunks(nb_conn_t *conn, nb_body_t *body, const char *bytes, size_t size)
{
    size_t used = 0;
    nb_piece_t piece;
    for (;;) {
        int result = nb_chunked_read(&body->chunked, bytes + used, size - used, &piece);
        if (result < 0)
            return -nb_chunked_status(result);
        if (result == NB_CHUNKED_DATA) {
            int error = add(conn, body, bytes + used + piece.at, piece.size);
            if (error)
                return error;
        }
        used += piece.used;
        if (result != NB_CHUNKED_DATA) {
            body->complete = result == NB_CHUNKED_DONE;
            return (ssize_t)used;
        }
    }
}

ssize_t nb_body_feed(nb_conn_t *conn, const char *bytes, size_t size)
{
    nb_body_t *body = conn->body;
    if (body->is_chunked)
        return feed_chunks(conn, body, bytes, size);
    uint64_t left = body->expected - body->received;
    if (size > left)
        size = (size_t)left;
    int error = add(conn, body, bytes, size);
    body->complete = body->received == body->expected;
    return error ? error : (ssize_t)size;
}

VALUE nb_input_of(const char *bytes, size_t size)
{
    VALUE string = rb_str_new(bytes, (long)size);
    return rb_funcallv(cStringIO, id_new, 1, &string);
}

bool nb_body_missing(const nb_conn_t *conn)
{
    return conn->body && !conn->body->complete;
}

VALUE nb_body_part(nb_conn_t *conn)
{
    nb_buffer_t *memory = &conn->body->memory;
    VALUE part = rb_str_new(memory->bytes, (long)memory->size);
    memory->size = 0;
    return part;
}

VALUE nb_body_input(nb_conn_t *conn)
{
    nb_body_t *body = conn->body;
    VALUE input;
    if (body->spool >= 0) {
        int fd = body->spool;
        lseek(fd, 0, SEEK_SET);
        body->spool = -1;
        rb_update_max_fd(fd);
        input = rb_funcall(rb_cFile, id_for_fd, 2, INT2NUM(fd), rb_str_new_cstr("rb"));
    } else {
        input = nb_input_of(body->memory.bytes, body->memory.size);
    }
    nb_body_free(conn);
    return input;
}

void nb_input_init(VALUE server_module)
{
    (void)server_module;
    id_new = rb_intern("new");
    id_for_fd = rb_intern("for_fd");
    rb_require("stringio");
    cStringIO = rb_path2class("StringIO");
    rb_gc_register_mark_object(cStringIO);
}
