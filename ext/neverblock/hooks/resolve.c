/* resolve.c - address_resolve: getaddrinfo(3) on an offload thread. Uses ruby.h.
 *
 * So nsswitch, /etc/hosts and mDNS apply as always. One lookup per name at a time; answers are kept
 * for a short while. Read after: wait.h, offload/pool.h. */
#include "base/clock.h"
#include "hooks/hooks.h"
#include "offload/pool.h"
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#define KEEP_NS (5 * NB_NS_PER_S) /* longer would outlive a failover, shorter not help a burst */
#define KEEP_NAMES 256
#define ADDRESS_BYTES 64 /* INET6_ADDRSTRLEN and a scope */

typedef struct nb_name {
    nb_list_t link;    /* in loop->names */
    nb_list_t waiters; /* nb_waiter_t */
    nb_loop_t *loop;
    nb_work_t work;
    uint64_t until_ns; /* answer good until; 0 while the lookup runs */
    int error;         /* of getaddrinfo */
    int errno_then;    /* if that is EAI_SYSTEM */
    int count;
    char (*addresses)[ADDRESS_BYTES];
    char host[];
} nb_name_t;

typedef struct {
    nb_list_t link;
    nb_park_t park;
    nb_name_t *name;
} nb_waiter_t;

static void name_free(nb_name_t *name)
{
    free(name->addresses);
    free(name);
}

/* ---- on the offload thread ----------------------------------------------------------------- */

static void run_lookup(nb_work_t *work)
{
    nb_name_t *name = nb_container_of(work, nb_name_t, work);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    name->error = getaddrinfo(name->host, NULL, &hints, &list);
    name->errno_then = name->error == EAI_SYSTEM ? errno : 0;
    if (name->error)
        return;
    int count = 0;
    for (struct addrinfo *item = list; item; item = item->ai_next)
        count++;
    name->addresses = calloc((size_t)count, ADDRESS_BYTES);
    for (struct addrinfo *item = list; item && name->addresses; item = item->ai_next)
        if (!getnameinfo(item->ai_addr, item->ai_addrlen, name->addresses[name->count],
                         ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST))
            name->count++;
    if (!name->addresses)
        name->error = EAI_MEMORY;
    freeaddrinfo(list);
}

static void on_drop(nb_work_t *work)
{
    name_free(nb_container_of(work, nb_name_t, work));
}

/* ---- on the loop --------------------------------------------------------------------------- */

static void on_done(nb_work_t *work)
{
    nb_name_t *name = nb_container_of(work, nb_name_t, work);
    name->until_ns = nb_clock_now() + (name->error ? 1 : KEEP_NS);
    for (nb_list_t *item = name->waiters.next; item != &name->waiters; item = item->next)
        nb_wake(&nb_container_of(item, nb_waiter_t, link)->park, NB_WOKEN);
}

static bool in_use(nb_name_t *name)
{
    return !name->until_ns || !nb_list_empty(&name->waiters);
}

/* Looks the name up among the kept ones. Drops those that are too old, and the oldest beyond
 * KEEP_NAMES.
 */
static nb_name_t *kept_name(nb_loop_t *loop, const char *host)
{
    uint64_t now = nb_clock_now();
    nb_name_t *found = NULL;
    int count = 0;
    for (nb_list_t *item = loop->names.prev, *before; item != &loop->names; item = before) {
        nb_name_t *name = nb_container_of(item, nb_name_t, link);
        before = item->prev;
        if (!in_use(name) && (name->until_ns <= now || ++count > KEEP_NAMES)) {
            nb_list_remove(&name->link);
            name_free(name);
        } else if (!strcmp(name->host, host) && (!name->until_ns || name->until_ns > now)) {
            found = name;
        }
    }
    return found;
}

static void forget_names(nb_loop_t *loop);

static nb_name_t *look_up(nb_loop_t *loop, const char *host)
{
    nb_name_t *name = calloc(1, sizeof(*name) + strlen(host) + 1);
    if (!name)
        rb_memerror();
    strcpy(name->host, host);
    name->loop = loop;
    nb_list_init(&name->waiters);
    name->work = (nb_work_t){.run = run_lookup, .done = on_done, .drop = on_drop, .slow = true};
    if (nb_offload(loop->mail, &name->work) < 0) {
        run_lookup(&name->work); /* no thread is available: late is better than never */
        on_done(&name->work);
    }
    nb_list_append(&loop->names, &name->link);
    loop->forget_names = forget_names;
    loop->counters.resolves++;
    return name;
}

/* A lookup that has not begun, and that nobody waits for any more, would only keep others waiting.
 */
static void give_up(nb_name_t *name)
{
    if (name->until_ns || !nb_list_empty(&name->waiters) || !nb_offload_withdraw(&name->work))
        return;
    nb_list_remove(&name->link);
    name_free(name);
}

static VALUE wait_body(VALUE argument)
{
    nb_park(&((nb_waiter_t *)argument)->park);
    return Qnil;
}

static VALUE wait_leave(VALUE argument)
{
    nb_waiter_t *waiter = (nb_waiter_t *)argument;
    waiter->park.loop->external--;
    bool listed = !nb_list_empty(&waiter->link); /* not in a forked child */
    nb_list_remove(&waiter->link);
    if (listed)
        give_up(waiter->name);
    return Qnil;
}

/* What blocking Ruby raises. A plain "not found" is nil, for which Ruby itself raises the error. */
static void raise_resolution_error(int error, int errno_then)
{
    VALUE cSocket = rb_path2class("Socket"), message;
    if (errno_then)
        rb_syserr_fail(errno_then, "getaddrinfo");
    message = rb_sprintf("getaddrinfo: %s", gai_strerror(error));
    if (!RTEST(rb_const_defined(cSocket, rb_intern("ResolutionError"))))
        rb_exc_raise(rb_exc_new_str(rb_path2class("SocketError"), message));
    VALUE exception = rb_exc_new_str(rb_const_get(cSocket, rb_intern("ResolutionError")), message);
    rb_ivar_set(exception, rb_intern("error_code"), INT2NUM(error));
    rb_exc_raise(exception);
}

static VALUE answer(nb_name_t *name)
{
    if (name->error == EAI_NONAME)
        return Qnil;
    if (name->error)
        raise_resolution_error(name->error, name->errno_then);
    VALUE addresses = rb_ary_new_capa(name->count);
    for (int i = 0; i < name->count; i++)
        rb_ary_push(addresses, rb_utf8_str_new_cstr(name->addresses[i]));
    return addresses;
}

/* @overload address_resolve(hostname)
 *   @param hostname [String]
 *   @return [Array<String>, nil] addresses in getaddrinfo's order; nil if the name is unknown
 *   @raise [SocketError] as without a scheduler
 *   @scheduling may wait */
static VALUE rb_nb_scheduler_address_resolve(VALUE self, VALUE hostname)
{
    nb_loop_t *loop = nb_loop_get(self);
    const char *host = StringValueCStr(hostname);
    nb_chaos_step(loop);
    nb_name_t *name = kept_name(loop, host);
    nb_waiter_t waiter;
    if (!name)
        name = look_up(loop, host);
    if (!name->until_ns) {
        nb_park_init(loop, &waiter.park, NB_PARK_RESOLVE);
        waiter.name = name;
        waiter.park.blocker = hostname;
        nb_list_append(&name->waiters, &waiter.link);
        loop->external++;
        rb_ensure(wait_body, (VALUE)&waiter, wait_leave, (VALUE)&waiter);
    }
    return answer(name);
}

/* @overload numeric_address(sockaddr)
 *   @param sockaddr [String] of IPv4 or IPv6, packed
 *   @return [Array(String, String), nil] address and port; nil where there is none
 *   @scheduling never waits */
static VALUE rb_nb_native_numeric_address(VALUE self, VALUE sockaddr)
{
    char host[ADDRESS_BYTES], port[sizeof("65535")];
    const struct sockaddr *address = (const struct sockaddr *)StringValuePtr(sockaddr);
    size_t length = (size_t)RSTRING_LEN(sockaddr);
    (void)self;
    if (length < sizeof(*address) ||
        (address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        getnameinfo(address, (socklen_t)length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return Qnil;
    return rb_assoc_new(rb_str_new_cstr(host), rb_str_new_cstr(port));
}

static void forget_names(nb_loop_t *loop)
{
    while (!nb_list_empty(&loop->names)) {
        nb_name_t *name = nb_container_of(loop->names.next, nb_name_t, link);
        nb_list_remove(&name->link);
        while (!nb_list_empty(&name->waiters)) /* in a forked child; else none is left */
            nb_list_remove(name->waiters.next);
        if (name->until_ns) /* else the work still runs, and is dropped by its thread */
            name_free(name);
    }
}

void Init_nb_hooks_resolve(VALUE cScheduler)
{
    rb_define_method(cScheduler, "address_resolve", rb_nb_scheduler_address_resolve, 1);
    rb_define_singleton_method(rb_path2class("NB::Native"), "numeric_address",
                               rb_nb_native_numeric_address, 1);
}
