/* mysql_wait.c - the MySQL client library waits in our loop. Uses ruby.h.
 *
 * Read after: mysql_library.h, mysql_wait.h.
 *
 * MariaDB's library calls a function of ours wherever it would call poll(2) (MARIADB_OPT_IO_WAIT).
 * The function parks the fiber, whose C stack then holds the library's frames:
 *
 *   Ruby: client.ping -> NB::Drivers::MysqlWait.call(client) { ... }   mysql_call.c: an
 *                                                                    nb_mysql_call_t per call
 *     mysql2: rb_thread_call_without_gvl                               so we are without the GVL
 *       mysql_ping -> pvio_socket_read -> EAGAIN -> io_wait            takes the GVL, parks
 *
 * Nothing may jump over those frames. What is raised in a parked fiber (a timeout, a cancel) is
 * caught, the library is told that its connection is gone and closes it, and `call` raises the
 * exception again once the library has returned.
 *
 * There are three kinds of waits. In a call in a loop, a wait parks. Outside of such a call (no
 * loop, another thread, the garbage collector), it is a plain poll(2). In a call that has been
 * interrupted, or on a client with which another fiber is parked, it fails at once.
 */
#include "drivers/mysql_wait.h"
#include "base/clock.h"
#include "base/ptrmap.h"
#include "drivers/mysql_library.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <ruby/thread.h>
#include <stdatomic.h>

static nb_ptrmap_t calls;         /* fiber -> the innermost call; needs the GVL */
static nb_ptrmap_t inside;        /* client -> the call parked in the library; needs the GVL */
static atomic_size_t calls_count; /* the size of `calls`, for threads without the GVL */
static nb_list_t connecting = {&connecting, &connecting}; /* needs the lock */
static atomic_size_t connecting_count;
static pthread_mutex_t connecting_lock = PTHREAD_MUTEX_INITIALIZER;
static bool tls_waits; /* whether the library lets TLS wait in the loop */

/* After so long, others get their turn even if no wait comes because data is always there. */
#define SLICE_NS 2000000
static _Thread_local uint64_t slice_began_ns;

int ruby_thread_has_gvl_p(void); /* exported, in no header */

/* Calls function with the GVL, whether the caller has it or not. */
static void with_gvl(void *(*function)(void *), void *argument)
{
    if (ruby_thread_has_gvl_p())
        function(argument);
    else
        rb_thread_call_with_gvl(function, argument);
}

/* The call of the current fiber. GC may free what was made outside a loop, and may talk to the
 * server for that, but it cannot park. */
static nb_mysql_call_t *current_call(void)
{
    return rb_during_gc() ? NULL : nb_ptrmap_get(&calls, (uintptr_t)rb_fiber_current());
}

/* Keeps what body raises for later: at its next wait, the library is told that its connection is
 * gone, and closes it. If no wait follows, the call ends as if nothing had happened. */
static void protect(nb_mysql_call_t *call, VALUE (*body)(VALUE), VALUE argument)
{
    int tag = 0;
    rb_protect(body, argument, &tag);
    slice_began_ns = nb_clock_now();
    if (!tag)
        return;
    call->raised = rb_errinfo();
    call->refused = true;
    rb_set_errinfo(Qnil);
}

/* ---- waiting ------------------------------------------------------------------------------- */

typedef struct {
    int fd, mask, timeout;
    int result, error;
    bool by_poll, is_tls;
    nb_loop_t *loop;
} nb_mysql_wait_t;

static void wait_by_poll(nb_mysql_wait_t *wait)
{
    struct pollfd pollfd = {.fd = wait->fd, .events = nb_poll_events(wait->mask)};
    do {
        wait->result = poll(&pollfd, 1, wait->timeout > 0 ? wait->timeout : -1);
    } while (wait->result < 0 && errno == EINTR); /* as the library does */
    if (wait->result <= 0)
        wait->error = wait->result ? errno : ETIMEDOUT;
}

static VALUE park(VALUE argument)
{
    nb_mysql_wait_t *wait = (nb_mysql_wait_t *)argument;
    uint64_t deadline = nb_mysql_deadline(nb_loop_clock(wait->loop), wait->timeout, wait->is_tls);
    wait->result = nb_wait_fd(wait->loop, wait->fd, wait->mask, deadline);
    return Qnil;
}

/* With TLS, the library says "to read" and may mean either. */
static void correct_for_tls(nb_mysql_wait_t *wait, const nb_mysql_t *mysql)
{
    if (nb_mysql_tls_wants_write(mysql))
        wait->mask = NB_WRITABLE;
    wait->is_tls = true;
}

/* With the GVL. */
static void *wait_in_loop(void *argument)
{
    nb_mysql_wait_t *wait = argument;
    nb_mysql_call_t *call = current_call();
    wait->by_poll = !call;
    if (!call)
        return NULL;
    if (call->mysql && nb_mysql_is_tls(call->mysql))
        correct_for_tls(wait, call->mysql);
    if (!call->refused && nb_ptrmap_add(&inside, call->client, call) == 0) {
        wait->loop = call->loop;
        protect(call, park, (VALUE)wait);
        nb_ptrmap_remove(&inside, call->client);
    } else {
        call->refused = true;
    }
    if (!wait->result)
        wait->error = ETIMEDOUT;
    if (call->refused) { /* not EINTR, on which mysql2 would connect again */
        wait->result = -1;
        wait->error = ECONNABORTED;
    }
    return NULL;
}

/* Called by the library, with or without the GVL, in any thread and fiber. */
static int io_wait(int fd, char is_read, int timeout)
{
    nb_mysql_wait_t wait = {.fd = fd,
                            .mask = is_read ? NB_READABLE : NB_WRITABLE,
                            .timeout = timeout,
                            .error = errno,
                            .by_poll = !atomic_load(&calls_count)};
    if (!wait.by_poll)
        with_gvl(wait_in_loop, &wait);
    if (wait.by_poll)
        wait_by_poll(&wait);
    errno = wait.error;
    return wait.result;
}

/* ---- TLS ----------------------------------------------------------------------------------- */

/* The library reads and writes plain connections with MSG_DONTWAIT. It leaves encrypted ones to
 * OpenSSL, and keeps their sockets blocking. During our calls they are not. */
static void set_blocking(nb_mysql_t *mysql, bool blocking)
{
    fcntl(nb_mysql_fd(mysql), F_SETFL, blocking ? 0 : O_NONBLOCK);
}

static void note_connecting(nb_mysql_call_t *call, bool begins)
{
    pthread_mutex_lock(&connecting_lock);
    if (begins)
        nb_list_append(&connecting, &call->link);
    else
        nb_list_remove(&call->link);
    atomic_fetch_add(&connecting_count, begins ? 1 : -1);
    pthread_mutex_unlock(&connecting_lock);
}

static void unblock_connecting(nb_mysql_t *mysql)
{
    pthread_mutex_lock(&connecting_lock);
    for (nb_list_t *item = connecting.next; item != &connecting; item = item->next)
        if (nb_container_of(item, nb_mysql_call_t, link)->mysql == mysql)
            set_blocking(mysql, false);
    pthread_mutex_unlock(&connecting_lock);
}

static VALUE yield(VALUE loop)
{
    nb_yield((nb_loop_t *)loop);
    return Qnil;
}

/* With the GVL. */
static void *give_way(void *mysql)
{
    nb_mysql_call_t *call = current_call();
    if (!call || call->mysql != mysql || call->refused ||
        nb_ptrmap_add(&inside, call->client, call) < 0)
        return NULL;
    protect(call, yield, (VALUE)call->loop);
    nb_ptrmap_remove(&inside, call->client);
    return NULL;
}

/* Called after each read and write, with or without the GVL. The first one reads the server's
 * greeting, before any TLS. */
static void on_traffic(int mode, nb_mysql_t *mysql, const unsigned char *buffer, size_t length)
{
    if (!atomic_load(&calls_count))
        return;
    int error = errno; /* of the read or write */
    if (mode == 0 && atomic_load(&connecting_count))
        unblock_connecting(mysql);
    if (nb_clock_now() - slice_began_ns > SLICE_NS)
        with_gvl(give_way, mysql);
    errno = error;
}

/* ---- the beginning and the end of a call -------------------------------------------------- */

void nb_mysql_call_begin(nb_mysql_call_t *call, bool connects)
{
    call->outer = nb_ptrmap_get(&calls, call->fiber);
    nb_ptrmap_remove(&calls, call->fiber);
    if (nb_ptrmap_add(&calls, call->fiber, call) < 0)
        rb_memerror();
    atomic_store(&calls_count, calls.count);
    nb_list_init(&call->link);
    if (connects && tls_waits)
        note_connecting(call, true);
    if (connects || call->mysql->socket) /* on a closed connection it would leak memory */
        nb_mysql_set_io_wait(call->mysql, io_wait);
    if (tls_waits && nb_mysql_is_tls(call->mysql))
        set_blocking(call->mysql, false);
}

void nb_mysql_call_end(nb_mysql_call_t *call)
{
    bool connected = !nb_list_empty(&call->link) && call->mysql->socket;
    if (!nb_list_empty(&call->link))
        note_connecting(call, false);
    nb_ptrmap_remove(&calls, call->fiber);
    if (call->outer)
        (void)nb_ptrmap_add(&calls, call->fiber, call->outer); /* a forked child begins anew */
    atomic_store(&calls_count, calls.count);
    if (connected || (tls_waits && !call->outer && nb_mysql_is_tls(call->mysql)))
        set_blocking(call->mysql, true);
}

nb_mysql_call_t *nb_mysql_call_suspend(VALUE fiber)
{
    nb_mysql_call_t *call = nb_ptrmap_get(&calls, fiber);
    nb_ptrmap_remove(&calls, fiber);
    atomic_store(&calls_count, calls.count);
    return call;
}

void nb_mysql_call_resume(nb_mysql_call_t *call)
{
    if (nb_ptrmap_add(&calls, call->fiber, call) < 0)
        rb_memerror();
    atomic_store(&calls_count, calls.count);
    if (tls_waits && nb_mysql_is_tls(call->mysql)) /* another call may have ended meanwhile */
        set_blocking(call->mysql, false);
}

/* For a forked child: the calls lie on stacks of the parent's fibers, and a thread that the child
 * does not have may hold the lock. */
static void forget_calls(void)
{
    nb_ptrmap_free(&calls);
    nb_ptrmap_free(&inside);
    nb_list_init(&connecting);
    atomic_store(&calls_count, 0);
    atomic_store(&connecting_count, 0);
    connecting_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

nb_mysql_call_t *nb_mysql_parked_call(VALUE client)
{
    return nb_ptrmap_get(&inside, client);
}

bool nb_mysql_wait_init(void)
{
    pthread_atfork(NULL, NULL, forget_calls);
    tls_waits = nb_mysql_set_trace(on_traffic);
    return tls_waits;
}
