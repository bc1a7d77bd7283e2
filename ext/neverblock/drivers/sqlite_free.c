/* sqlite_free.c - frees sqlite3's garbage on threads: NB::Drivers::SQLiteFree. Uses ruby.h.
 *
 * sqlite3 frees a statement inside the garbage collector. If the statement has rows left, SQLite
 * ends it there. That may commit, wait for a lock, and call the busy handler, where no Ruby code
 * may run. And if a COMMIT of the same connection waits, it commits in the middle of that one.
 * So a statement that has begun, and whose connection has a busy handler in Ruby, gets a free
 * function of ours:
 *
 *   collected: statement  -> its note goes to `found`; a job starts a thread
 *   the thread            -> sqlite3's free function, for each of `found`. If the handler waits, a
 *                            second thread goes on with other connections: perhaps for those. While
 *                            a batch runs, it holds those of its own
 *   collected: connection -> as soon as its last statement is freed, the thread closes it. Its
 *                            handler is garbage, too, and gives way to one that refuses
 *
 * Two tables by sqlite3's struct, owners (connections) and notes (statements), are filled in
 * advance, because the garbage collector may not allocate. All of it needs the GVL.
 */
#include "drivers/sqlite_free.h"
#include "base/list.h"
#include "base/ptrmap.h"
#include "drivers/free_type.h"
#include "loop/postponed.h"
#include <stdbool.h>

typedef struct {    /* one SQLite3::Database */
    nb_list_t link; /* in `closing`, once it and all its statements are collected */
    void *data;
    size_t notes;
    unsigned held; /* by batches, and by the thread that frees one of its statements */
    bool collected;
} nb_sqlite_owner_t;

typedef struct { /* one SQLite3::Statement */
    nb_list_t link;
    nb_sqlite_owner_t *owner;
    void *data;
    unsigned process;
} nb_sqlite_note_t;

/* sqlite3's struct of a statement begins with the sqlite3_stmt*, NULL once it is closed. That of a
 * connection begins with the sqlite3* and the busy handler. */
enum { HANDLER = 1 };
enum { MOST_THREADS = 8 };

static nb_ptrmap_t owners, notes;
static nb_free_type_t database_type, statement_type;
static nb_list_t found = {&found, &found}, closing = {&closing, &closing};
static nb_postponed_t job;
static unsigned threads; /* there, or about to be */
static bool exiting;     /* Ruby runs no more threads, and frees everything */
static unsigned process; /* counts forks: a child must not end its parent's statements */
static VALUE refusal;    /* a busy handler */
static ID id_freeing;

static void close_now(nb_sqlite_owner_t *owner)
{
    nb_list_remove(&owner->link);
    database_type.theirs->function.dfree(owner->data);
    free(owner);
}

static void close_later(nb_sqlite_owner_t *owner)
{
    nb_list_append(&closing, &owner->link);
    nb_postponed_request(&job);
}

static void forget(nb_sqlite_note_t *note)
{
    nb_sqlite_owner_t *owner = note->owner;
    nb_list_remove(&note->link);
    free(note);
    if (!--owner->notes && owner->collected)
        exiting ? close_now(owner) : close_later(owner);
}

/* May wait in the busy handler, but does not raise. */
static void free_now(nb_sqlite_note_t *note)
{
    statement_type.theirs->function.dfree(note->data);
    forget(note);
}

/* Runs in the garbage collector, so it allocates nothing. */
static void on_statement(void *data)
{
    nb_sqlite_note_t *note = nb_ptrmap_get(&notes, (uintptr_t)data);
    nb_ptrmap_remove(&notes, (uintptr_t)data);
    if (*(void **)data && note->process != process) {
        forget(note);
    } else if (!*(void **)data || exiting) {
        free_now(note);
    } else {
        nb_list_append(&found, &note->link);
        nb_postponed_request(&job);
    }
}

/* Runs in the garbage collector. */
static void on_database(void *data)
{
    nb_sqlite_owner_t *owner = nb_ptrmap_get(&owners, (uintptr_t)data);
    nb_ptrmap_remove(&owners, (uintptr_t)data);
    owner->collected = true;
    ((VALUE *)data)[HANDLER] = refusal;
    if (!owner->notes)
        exiting ? close_now(owner) : close_later(owner);
}

/* Ends the garbage collector's sweep, which goes on from one allocation to another. What has not
 * been collected by then is alive, or will be marked from here on. */
static void end_sweep(void)
{
    if (rb_gc_latest_gc_info(ID2SYM(rb_intern("state"))) != ID2SYM(rb_intern("sweep")))
        return;
    if (!RTEST(rb_gc_disable())) /* does it */
        rb_gc_enable();
}

/* Returns NULL if nothing is left that can be freed now. */
static nb_sqlite_note_t *next_note(void)
{
    for (nb_list_t *link = found.next; link != &found; link = link->next) {
        nb_sqlite_note_t *note = nb_container_of(link, nb_sqlite_note_t, link);
        if (!note->owner->held)
            return note;
    }
    return NULL;
}

static void release(nb_sqlite_owner_t *owner)
{
    if (!--owner->held && next_note())
        nb_postponed_request(&job);
}

static VALUE free_note(VALUE argument)
{
    nb_sqlite_note_t *note = (nb_sqlite_note_t *)argument;
    statement_type.theirs->function.dfree(note->data); /* may wait in the busy handler */
    return Qnil;
}

static VALUE end_note(VALUE argument)
{
    nb_sqlite_note_t *note = (nb_sqlite_note_t *)argument;
    release(note->owner);
    forget(note);
    return Qnil;
}

static VALUE free_all(VALUE unused)
{
    rb_thread_local_aset(rb_thread_current(), id_freeing, Qtrue);
    for (;;) {
        while (!nb_list_empty(&closing))
            close_now(nb_container_of(closing.next, nb_sqlite_owner_t, link));
        nb_sqlite_note_t *note = next_note();
        if (!note)
            return Qnil;
        end_sweep();
        nb_list_remove(&note->link);
        note->owner->held++;
        if (next_note()) /* another thread frees it if this one waits: perhaps for it */
            nb_postponed_request(&job);
        /* The handler refers to its connection. So while it waits, neither is collected. */
        volatile VALUE handler = ((VALUE *)note->owner->data)[HANDLER];
        rb_ensure(free_note, (VALUE)note, end_note, (VALUE)note);
        RB_GC_GUARD(handler);
    }
}

static VALUE end_thread(VALUE unused)
{
    threads--;
    return Qnil;
}

static VALUE in_thread(void *unused)
{
    return rb_ensure(free_all, Qnil, end_thread, Qnil);
}

static VALUE start_thread(VALUE unused)
{
    return rb_thread_create(in_thread, NULL);
}

static void on_job(void *unused)
{
    if (threads == MOST_THREADS || exiting || (!next_note() && nb_list_empty(&closing)))
        return;
    int state;
    threads++;
    rb_protect(start_thread, Qnil, &state);
    if (state) { /* no thread: the next garbage asks again */
        threads--;
        rb_set_errinfo(Qnil);
    }
}

static nb_sqlite_owner_t *owner_of(VALUE database)
{
    return nb_ptrmap_get(&owners, (uintptr_t)RTYPEDDATA_DATA(database));
}

/* @overload own(database, handler)
 *   Frees the statements of that connection later, from now on.
 *   @param handler [#call] the busy handler that it has */
static VALUE rb_nb_sqlite_free_own(VALUE self, VALUE database, VALUE handler)
{
    if (!RB_TYPE_P(database, T_DATA) || !RTYPEDDATA_P(database))
        rb_raise(rb_eTypeError, "not a SQLite3::Database: %" PRIsVALUE, rb_obj_class(database));
    void *data = RTYPEDDATA_DATA(database);
    if (owner_of(database) || RTYPEDDATA_TYPE(database)->function.dsize(data) < 2 * sizeof(VALUE) ||
        ((VALUE *)data)[HANDLER] != handler)
        return Qnil; /* sqlite3 1.x: the garbage collector leaves SQLite's statements alone */
    nb_sqlite_owner_t *owner = calloc(1, sizeof *owner);
    if (!owner || nb_ptrmap_add(&owners, (uintptr_t)data, owner) < 0) {
        free(owner);
        rb_memerror();
    }
    nb_list_init(&owner->link);
    owner->data = data;
    nb_replace_free(database, &database_type, on_database);
    database_type.ours.flags |= RUBY_TYPED_FREE_IMMEDIATELY; /* the thread does what takes time */
    return Qnil;
}

/* @overload later(statement, database)
 *   Frees the statement later, if that connection's are to be. */
static VALUE rb_nb_sqlite_free_later(VALUE self, VALUE statement, VALUE database)
{
    if (!RB_TYPE_P(statement, T_DATA) || !RB_TYPE_P(database, T_DATA) ||
        RTYPEDDATA_TYPE(statement) == &statement_type.ours)
        return Qnil;
    nb_sqlite_owner_t *owner = owner_of(database);
    if (!owner)
        return Qnil;
    void *data = RTYPEDDATA_DATA(statement);
    nb_sqlite_note_t *note = calloc(1, sizeof *note);
    if (!note || nb_ptrmap_add(&notes, (uintptr_t)data, note) < 0) {
        free(note);
        rb_memerror();
    }
    nb_list_init(&note->link);
    note->owner = owner;
    note->data = data;
    note->process = process;
    owner->notes++;
    nb_replace_free(statement, &statement_type, on_statement);
    return Qnil;
}

static VALUE end_hold(VALUE database)
{
    nb_sqlite_owner_t *owner = owner_of(database);
    if (owner && owner->held)
        release(owner);
    return Qnil;
}

/* @overload hold(database)
 *   Frees no statement of that connection while the block runs.
 *   @return the block's value */
static VALUE rb_nb_sqlite_free_hold(VALUE self, VALUE database)
{
    nb_sqlite_owner_t *owner = owner_of(database);
    if (!owner)
        return rb_yield(Qnil);
    owner->held++;
    return rb_ensure(rb_yield, Qnil, end_hold, database);
}

/* @overload forget
 *   In a forked child: the statements are the parent's, and the thread is not there. */
static VALUE rb_nb_sqlite_free_forget(VALUE self)
{
    process++;
    threads = 0;
    while (!nb_list_empty(&found))
        forget(nb_container_of(found.next, nb_sqlite_note_t, link));
    return Qnil;
}

/* @overload finish(turns)
 *   Frees what the garbage collector has found.
 *   @param turns [Integer] for how many milliseconds to wait for the threads */
static VALUE rb_nb_sqlite_free_finish(VALUE self, VALUE turns)
{
    free_all(Qnil);
    rb_thread_local_aset(rb_thread_current(), id_freeing, Qnil);
    for (long left = NUM2LONG(turns); threads && left > 0; left--)
        rb_thread_wait_for((struct timeval){.tv_usec = 1000});
    return Qnil;
}

/* @overload living?(statement)
 *   @return [Boolean] whether SQLite may have to end it: it has begun in this process */
static VALUE rb_nb_sqlite_free_living_p(VALUE self, VALUE statement)
{
    void *data = RTYPEDDATA_DATA(statement);
    const nb_sqlite_note_t *note = nb_ptrmap_get(&notes, (uintptr_t)data);
    return note && note->process == process && *(void **)data ? Qtrue : Qfalse;
}

/* @overload exit
 *   The last thing that Ruby calls before it frees everything. */
static VALUE rb_nb_sqlite_free_exit(VALUE self)
{
    rb_nb_sqlite_free_finish(self, INT2FIX(0));
    exiting = true;
    return Qnil;
}

static VALUE refuse(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument))
{
    return Qfalse;
}

void Init_nb_sqlite_free(VALUE mNB)
{
    VALUE mFree = rb_define_module_under(rb_define_module_under(mNB, "Drivers"), "SQLiteFree");
    rb_gc_register_mark_object(refusal = rb_proc_new(refuse, Qnil));
    id_freeing = rb_intern("neverblock_sqlite3_freeing");
    job = nb_postponed(on_job);
    rb_define_singleton_method(mFree, "exit", rb_nb_sqlite_free_exit, 0);
    rb_define_singleton_method(mFree, "finish", rb_nb_sqlite_free_finish, 1);
    rb_define_singleton_method(mFree, "forget", rb_nb_sqlite_free_forget, 0);
    rb_define_singleton_method(mFree, "hold", rb_nb_sqlite_free_hold, 1);
    rb_define_singleton_method(mFree, "later", rb_nb_sqlite_free_later, 2);
    rb_define_singleton_method(mFree, "living?", rb_nb_sqlite_free_living_p, 1);
    rb_define_singleton_method(mFree, "own", rb_nb_sqlite_free_own, 2);
}
