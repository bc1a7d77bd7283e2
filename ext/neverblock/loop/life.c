/* life.c - how a loop is made, marked, forked and freed. Ruby. Read after: loop.h. */
#include "base/clock.h"
#include "loop/guest.h"
#include "loop/wait.h"
#include "offload/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <ruby/fiber/scheduler.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/prctl.h>
#endif

#define TIMER_SLACK_NS 1000 /* the kernel's default of 50 us would make every timer that late */

VALUE rb_cNBScheduler;
nb_list_t nb_open_loops = {&nb_open_loops, &nb_open_loops};

static void loop_mark(void *data)
{
    nb_loop_t *loop = data;
    rb_gc_mark(loop->thread);
    rb_gc_mark(loop->current);
    rb_gc_mark(loop->deferred);
    rb_gc_mark(loop->guest.host);
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        if (!loop->parked.slots[i].key)
            continue;
        nb_park_t *park = loop->parked.slots[i].value;
        rb_gc_mark(park->fiber);
        rb_gc_mark(park->owner);
        rb_gc_mark(park->blocker);
        rb_gc_mark(park->first);
        if (park->exception != Qundef)
            rb_gc_mark(park->exception);
    }
}

static void close_kernel_side(nb_loop_t *loop)
{
    nb_guest_leave(loop);
    if (loop->forget_names)
        loop->forget_names(loop);
    nb_mailbox_close(loop->mail);
    nb_fdtable_close(&loop->fds);
    close(loop->wake_fds[0]);
    if (loop->wake_fds[1] != loop->wake_fds[0])
        close(loop->wake_fds[1]);
}

static void release(nb_loop_t *loop)
{
    if (loop->closed)
        return;
    loop->closed = true;
    nb_list_remove(&loop->link);
    close_kernel_side(loop);
    nb_timers_free(&loop->timers);
    nb_ptrmap_free(&loop->parked);
    free(loop->ready.items);
    loop->ready = (nb_ready_t){0};
}

static void loop_free(void *data)
{
    release(data);
    xfree(data);
}

static size_t loop_size(const void *data)
{
    const nb_loop_t *loop = data;
    return sizeof(*loop) + loop->fds.page_count * sizeof(nb_slot_t) * 256 +
           loop->timers.capacity * 16 + (loop->parked.mask + 1) * sizeof(nb_ptrmap_slot_t);
}

/* Not WB_PROTECTED: the fibers parked here change at every switch, and each minor GC has to look at
 * their stacks anyway. VALUEs are marked without moving them: C stacks hold them too. */
const rb_data_type_t nb_loop_type = {
    .wrap_struct_name = "NB::Scheduler",
    .function = {.dmark = loop_mark, .dfree = loop_free, .dsize = loop_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE loop_alloc(VALUE klass)
{
    nb_loop_t *loop;
    VALUE self = TypedData_Make_Struct(klass, nb_loop_t, &nb_loop_type, loop);
    loop->self = self;
    loop->closed = true; /* until opened */
    loop->deferred = Qnil;
    nb_list_init(&loop->link);
    nb_list_init(&loop->before_poll);
    nb_list_init(&loop->names);
    return self;
}

static int open_wake_fds(int fds[2])
{
#ifdef __linux__
    fds[0] = fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fds[0] < 0 ? -errno : 0;
#else
    if (pipe(fds) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
#endif
}

static int open_kernel_side(nb_loop_t *loop, const nb_backend_ops_t *ops)
{
    int result = nb_fdtable_open(&loop->fds, ops);
    if (result < 0)
        return result;
    result = open_wake_fds(loop->wake_fds);
    if (result < 0) {
        nb_fdtable_close(&loop->fds);
        return result;
    }
    rb_update_max_fd(loop->wake_fds[1]);
    loop->mail = nb_mailbox_new(loop->wake_fds[1]);
    if (!loop->mail)
        return -ENOMEM;
    loop->wake_watch =
        (nb_watch_t){.fd = loop->wake_fds[0], .mask = NB_READABLE, .on_ready = nb_loop_on_wake_fd};
    loop->pid = getpid();
    return nb_fdtable_add(&loop->fds, &loop->wake_watch);
}

/* @!visibility private - name: String; called by #initialize. */
static VALUE rb_nb_scheduler_open(VALUE self, VALUE name)
{
    nb_loop_t *loop = rb_check_typeddata(self, &nb_loop_type);
    const nb_backend_ops_t *const *ops = nb_backends;
    while (*ops && strcmp((*ops)->name, StringValueCStr(name)))
        ops++;
    if (!*ops)
        return Qfalse;
    loop->deferred = rb_funcall(rb_hash_new(), rb_intern("compare_by_identity"), 0);
    int result = open_kernel_side(loop, *ops);
    if (result < 0)
        rb_syserr_fail(-result, "NB::Scheduler.new: opening the backend");
    loop->closed = false;
    loop->now_ns = nb_clock_now();
    nb_list_append(&nb_open_loops, &loop->link);
    return Qtrue;
}

/* @!visibility private - whether this is the loop's own thread, or it has none yet. */
static VALUE rb_nb_scheduler_mine_p(VALUE self)
{
    VALUE thread = nb_loop_any(self)->thread;
    return !thread || thread == rb_thread_current() ? Qtrue : Qfalse;
}

/* @!visibility private - frees the kernel's side; the last step of #close. */
static VALUE rb_nb_scheduler_release(VALUE self)
{
    nb_loop_t *loop = rb_check_typeddata(self, &nb_loop_type);
#ifdef __linux__
    if (loop->thread)
        prctl(PR_SET_TIMERSLACK, loop->old_timer_slack, 0, 0, 0);
#endif
    release(loop);
    return Qnil;
}

static void bind_thread(nb_loop_t *loop)
{
    loop->thread = rb_thread_current();
#ifdef __linux__
    loop->old_timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
#endif
}

nb_loop_t *nb_loop_any(VALUE scheduler)
{
    return rb_check_typeddata(scheduler, &nb_loop_type);
}

static void refuse(nb_loop_t *loop)
{
    if (loop->pid && loop->pid != getpid())
        rb_raise(
            rb_path2class("NB::ForkedError"),
            "this scheduler belongs to process %d and its thread did not survive the fork into "
            "%d: make a new one with NB.run or NB::Scheduler.new",
            (int)loop->pid, (int)getpid());
    if (loop->closed)
        rb_raise(
            rb_path2class("NB::ClosedError"),
            "the scheduler is closed: its thread ended it with Fiber.set_scheduler(nil) or left "
            "NB.run; make a new one");
    rb_raise(rb_path2class("NB::WrongThreadError"),
             "this scheduler runs on %" PRIsVALUE " and was called from %" PRIsVALUE
             ": only unblock, fiber_interrupt, stats and waits may be",
             rb_inspect(loop->thread), rb_inspect(rb_thread_current()));
}

nb_loop_t *nb_loop_get(VALUE scheduler)
{
    nb_loop_t *loop = rb_check_typeddata(scheduler, &nb_loop_type);
    if (loop->closed)
        refuse(loop);
    if (loop->thread != rb_thread_current()) {
        if (loop->thread)
            refuse(loop);
        bind_thread(loop);
    }
    return loop;
}

nb_loop_t *nb_loop_current(void)
{
    VALUE scheduler = rb_fiber_scheduler_current();
    if (NIL_P(scheduler) || !rb_typeddata_is_kind_of(scheduler, &nb_loop_type))
        return NULL;
    return nb_loop_get(scheduler);
}

/* ---- fork -------------------------------------------------------------------------------- */

/* Ruby makes the fiber that forked the child's first one; nobody will enter the others again. */
static void drop_parks(nb_loop_t *loop)
{
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        nb_park_t *park = loop->parked.slots[i].key ? loop->parked.slots[i].value : NULL;
        if (park)
            nb_timers_remove(&loop->timers, &park->timer);
    }
    nb_ptrmap_free(&loop->parked);
    loop->ready.head = loop->ready.tail;
    loop->ready.count = 0;
    loop->runner = NULL;
}

static void start_clean(nb_loop_t *loop)
{
    const nb_backend_ops_t *ops = loop->fds.backend.ops;
    bool scheduled = !RTEST(rb_funcall(rb_fiber_current(), rb_intern("blocking?"), 0));
    close_kernel_side(loop);
    nb_list_init(&loop->before_poll);
    loop->fibers = scheduled ? 1 : 0;
    loop->idle_fibers = loop->external = 0;
    drop_parks(loop);
    rb_hash_clear(loop->deferred);
    int result = open_kernel_side(loop, ops);
    if (result < 0)
        rb_syserr_fail(-result, "nb_loops_after_fork: opening the backend");
}

void nb_loops_after_fork(void)
{
    nb_offload_after_fork();
    nb_list_t *item = nb_open_loops.next;
    while (item != &nb_open_loops) {
        nb_loop_t *loop = nb_container_of(item, nb_loop_t, link);
        item = item->next;
        if (loop->pid == getpid())
            continue;
        if (!loop->thread || loop->thread == rb_thread_current())
            start_clean(loop);
        else
            release(loop);
    }
}

/* @!visibility private */
static VALUE rb_nb_native_after_fork(VALUE mod)
{
    nb_loops_after_fork();
    return Qnil;
}

/* @!visibility private - every open loop wakes who waits for fd: it is about to be closed. */
static VALUE rb_nb_native_closing(VALUE mod, VALUE fd)
{
    for (nb_list_t *item = nb_open_loops.next; item != &nb_open_loops; item = item->next) {
        nb_loop_t *loop = nb_container_of(item, nb_loop_t, link);
        nb_fdtable_closing(&loop->fds, NUM2INT(fd));
    }
    return Qnil;
}

/* @!visibility private - names of this build's backends, best first. */
static VALUE rb_nb_native_backends(VALUE mod)
{
    VALUE names = rb_ary_new();
    for (const nb_backend_ops_t *const *ops = nb_backends; *ops; ops++)
        rb_ary_push(names, rb_utf8_str_new_cstr((*ops)->name));
    return names;
}

void Init_nb_loop(VALUE mNB)
{
    rb_cNBScheduler = rb_define_class_under(mNB, "Scheduler", rb_cObject);
    rb_define_alloc_func(rb_cNBScheduler, loop_alloc);
    rb_define_private_method(rb_cNBScheduler, "open", rb_nb_scheduler_open, 1);
    rb_define_private_method(rb_cNBScheduler, "mine?", rb_nb_scheduler_mine_p, 0);
    rb_define_private_method(rb_cNBScheduler, "release", rb_nb_scheduler_release, 0);
    VALUE mNative = rb_define_module_under(mNB, "Native");
    rb_define_singleton_method(mNative, "after_fork", rb_nb_native_after_fork, 0);
    rb_define_singleton_method(mNative, "closing", rb_nb_native_closing, 1);
    rb_define_singleton_method(mNative, "backends", rb_nb_native_backends, 0);
}
