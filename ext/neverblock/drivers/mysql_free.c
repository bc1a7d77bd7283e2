/* mysql_free.c - frees mysql2's garbage once its connection is idle. Uses ruby.h.
 * Read after: mysql_free.h, mysql_library.h.
 *
 * To free a statement, mysql2 tells the server; to free a streamed result, it reads the rest of it.
 * If another fiber is parked in the middle of an answer on that connection, the library would
 * swallow that answer; and in the garbage collector no fiber can park. So these objects, and their
 * clients, get a free function of ours (a rb_data_type_t whose parent is mysql2's):
 *
 *   collected: statement, result -> a note in `found` of its client; mysql2's struct stays
 *   next call of that client     -> mysql2's free function, for each of `found`
 *   collected: client            -> its socket is cut, so nothing can wait: all is freed
 *
 * Two tables by mysql2's struct, owners (clients) and notes (their objects), are filled in advance,
 * because the garbage collector may not allocate. A note is in one of its owner's two lists:
 *
 *   nb_mysql_free_later ─▶ living ──on_found──▶ found ──nb_mysql_free_found──▶ freed
 *                            └─on_client_found─▶ no owner ──on_found──▶ freed at once
 *
 * An owner ends with its client. `streams` counts the living results that have rows left to read:
 * while there are any, nothing of this client can be freed, because that would talk to the server.
 */
#include "drivers/mysql_free.h"
#include "base/list.h"
#include "base/portable.h"
#include "base/ptrmap.h"
#include "drivers/free_type.h"
#include "drivers/mysql_library.h"
#include <fcntl.h>
#include <unistd.h>

typedef struct { /* one Mysql2::Client */
    nb_list_t living, found;
    size_t streams; /* among the living: those with rows left to read */
    nb_mysql_t *mysql;
} nb_mysql_owner_t;

typedef struct { /* one Mysql2::Statement or Mysql2::Result */
    nb_list_t link;
    nb_mysql_owner_t *owner; /* NULL: collected */
    void *data;              /* mysql2's struct */
    void (*free)(void *);
    bool streams;
} nb_mysql_note_t;

static nb_ptrmap_t owners, notes; /* by mysql2's struct; needs the GVL */
static nb_free_type_t types[3];   /* client, statement, result */

/* Gives the note's object to mysql2's function. It may park, but does not raise. */
static void free_now(nb_mysql_note_t *note)
{
    nb_mysql_note_t copy = *note;
    nb_list_remove(&note->link);
    free(note);
    copy.free(copy.data);
}

static void has_read(nb_mysql_note_t *note)
{
    if (note->streams && note->owner)
        note->owner->streams--;
    note->streams = false;
}

/* Runs in the garbage collector, so it allocates nothing. */
static void on_found(void *data)
{
    nb_mysql_note_t *note = nb_ptrmap_get(&notes, (uintptr_t)data);
    nb_ptrmap_remove(&notes, (uintptr_t)data);
    has_read(note);
    nb_list_remove(&note->link);
    if (note->owner)
        nb_list_append(&note->owner->found, &note->link);
    else
        free_now(note);
}

/* Works as mysql2 does with automatic_close: false. The server sees the connection end, unless
 * another process has it too. */
static void cut(nb_mysql_t *mysql)
{
    int fd = nb_mysql_fd(mysql), null = fd < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return;
    nb_replace_fd(null, fd);
    close(null);
}

/* Runs in the garbage collector. The living are garbage too, because each marks its client. */
static void on_client_found(void *data)
{
    nb_mysql_owner_t *owner = nb_ptrmap_get(&owners, (uintptr_t)data);
    nb_ptrmap_remove(&owners, (uintptr_t)data);
    if (!nb_list_empty(&owner->living) || !nb_list_empty(&owner->found))
        cut(owner->mysql);
    while (!nb_list_empty(&owner->living)) {
        nb_mysql_note_t *note = nb_container_of(owner->living.next, nb_mysql_note_t, link);
        nb_list_remove(&note->link);
        note->owner = NULL;
    }
    while (!nb_list_empty(&owner->found))
        free_now(nb_container_of(owner->found.next, nb_mysql_note_t, link));
    free(owner);
    types[0].theirs->function.dfree(data);
}

static nb_mysql_owner_t *owner_of(VALUE client, size_t client_offset)
{
    char *data = RTYPEDDATA_DATA(client);
    nb_mysql_owner_t *owner = nb_ptrmap_get(&owners, (uintptr_t)data);
    if (owner)
        return owner;
    owner = calloc(1, sizeof *owner);
    if (!owner || nb_ptrmap_add(&owners, (uintptr_t)data, owner) < 0) {
        free(owner);
        rb_memerror();
    }
    nb_list_init(&owner->living);
    nb_list_init(&owner->found);
    owner->mysql = *(nb_mysql_t **)(data + client_offset);
    nb_replace_free(client, &types[0], on_client_found);
    return owner;
}

void nb_mysql_free_later(VALUE object, VALUE client, bool streams, size_t client_offset)
{
    void *data = RTYPEDDATA_DATA(object);
    if (nb_ptrmap_get(&notes, (uintptr_t)data))
        return;
    nb_mysql_owner_t *owner = owner_of(client, client_offset);
    nb_mysql_note_t *note = calloc(1, sizeof *note);
    if (!note || nb_ptrmap_add(&notes, (uintptr_t)data, note) < 0) {
        free(note);
        rb_memerror();
    }
    note->owner = owner;
    note->data = data;
    note->streams = streams;
    nb_free_type_t *type = &types[streams ? 2 : 1];
    nb_replace_free(object, type, on_found);
    note->free = type->theirs->function.dfree;
    owner->streams += streams;
    nb_list_append(&owner->living, &note->link);
}

void nb_mysql_free_has_read(VALUE result)
{
    nb_mysql_note_t *note = nb_ptrmap_get(&notes, (uintptr_t)RTYPEDDATA_DATA(result));
    if (note)
        has_read(note);
}

void nb_mysql_free_found(VALUE client, bool (*done)(void *), void *argument)
{
    VALUE *data = RTYPEDDATA_DATA(client);
    nb_mysql_owner_t *owner = nb_ptrmap_get(&owners, (uintptr_t)data);
    if (!owner)
        return;
    /* mysql2's active_fiber is set from the sending of a query until its answer. */
    while (!nb_list_empty(&owner->found) && !owner->streams && NIL_P(data[1]) &&
           !nb_mysql_more_results(owner->mysql) && !done(argument))
        free_now(nb_container_of(owner->found.next, nb_mysql_note_t, link));
}
