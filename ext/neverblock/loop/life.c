/* life.c - how a loop is made, marked and freed. Uses ruby.h. Read after: loop.h. */
#include "base/clock.h"
#include "base/mailbox.h"
#include "loop/transferred.h"
#include "loop/shield.h"
#include "loop/watchdog.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/version.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/prctl.h>
#endif

#define TIMER_SLACK_NS 1000 /* the kernel's default of 50 us would make every timer that late */

VALUE rb_cNBScheduler;
void (*nb_loops_stale)(void);
nb_list_t nb_open_loops = {&nb_open_loops, &nb_open_loops};

/* ---- a thread's value ------------------------------------------------------------------------ */

#if RUBY_API_VERSION_CODE < 30300 && defined(__GLIBC__)
#define FRAME_WORDS 128 /* more than the frame has; the stack goes on above it */

/* Ruby asks the scheduler to close when the thread's block has ended. Meanwhile it keeps the
 * block's value in a frame above the VM stack, where for the collector (until 3.2) the machine
 * stack begins. Nobody else needs the value, so the loop looks there and marks it. */
static const VALUE *find_value_frame(VALUE thread)
{
    VALUE *low,
        vm_stack = rb_hash_aref(rb_const_get(rb_path2class("RubyVM"), rb_intern("DEFAULT_PARAMS")),
                                ID2SYM(rb_intern("thread_vm_stack_size")));
    size_t length = ruby_stack_length(&low), size;
    pthread_attr_t attributes;
    void *bottom;
    if (thread == rb_thread_main() || pthread_getattr_np(pthread_self(), &attributes))
        return NULL;
    int result = pthread_attr_getstack(&attributes, &bottom, &size);
    pthread_attr_destroy(&attributes);
    const VALUE *frame = low + length + NUM2SIZET(vm_stack) / sizeof(VALUE),
                *top = (VALUE *)((char *)bottom + size);
    bool on_it = (void *)low >= bottom && low < top; /* and not on a fiber's */
    return !result && on_it && frame + FRAME_WORDS <= top ? frame : NULL;
}

static void mark_value(const nb_loop_t *loop)
{
    if (loop->value_frame)
        rb_gc_mark_locations(loop->value_frame, loop->value_frame + FRAME_WORDS);
}
#else
#define find_value_frame(thread) NULL
#define mark_value(loop) ((void)0)
#endif

/* @!visibility private - the thread may have ended, because #close begins. */
static VALUE rb_nb_scheduler_keep_value(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    loop->value_frame = find_value_frame(rb_thread_current());
    return Qnil;
}

/* ---- marked and freed ------------------------------------------------------------------------ */

static void mark_parks(const nb_park_t *park)
{
    for (; park; park = park->outer) {
        rb_gc_mark(park->fiber);
        rb_gc_mark(park->owner);
        rb_gc_mark(park->blocker);
        rb_gc_mark(park->first);
        rb_gc_mark(park->status);
        if (park->exception != Qundef)
            rb_gc_mark(park->exception);
    }
}

static void mark_idle(const nb_loop_t *loop)
{
    for (size_t i = 0; loop->idle.slots && i <= loop->idle.mask; i++)
        if (loop->idle.slots[i].value)
            rb_gc_mark((VALUE)loop->idle.slots[i].key);
}

static void loop_mark(void *data)
{
    nb_loop_t *loop = data;
    rb_gc_mark(loop->self); /* so that it stays where it is */
    rb_gc_mark(loop->thread);
    rb_gc_mark(loop->overdue);
    rb_gc_mark(loop->rescued);
    rb_gc_mark(loop->leader);
    rb_gc_mark(loop->current);
    rb_gc_mark(loop->deferred);
    rb_gc_mark(loop->early_unblocks);
    rb_gc_mark(loop->never_freed);
    rb_gc_mark(loop->guest.host);
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++)
        if (loop->parked.slots[i].value)
            mark_parks(loop->parked.slots[i].value);
    nb_shields_mark(loop);
    nb_transferred_mark(loop);
    mark_idle(loop);
    if (loop->mark_timeouts)
        loop->mark_timeouts(loop);
    mark_value(loop);
}

void nb_loop_close_kernel_side(nb_loop_t *loop)
{
    if (loop->guest.host)
        loop->guest.leave(loop);
    if (loop->forget_names)
        loop->forget_names(loop);
    nb_mailbox_close(loop->mail);
    loop->mail = NULL;
    nb_fdtable_close(&loop->fds);
    if (loop->wake_fds[0] >= 0)
        close(loop->wake_fds[0]);
    if (loop->wake_fds[1] != loop->wake_fds[0])
        close(loop->wake_fds[1]);
    loop->wake_fds[0] = loop->wake_fds[1] = -1;
}

void nb_loop_release(nb_loop_t *loop)
{
    if (loop->closed)
        return;
    loop->closed = true;
    loop->value_frame = NULL; /* of a stack that ends with its thread */
    nb_list_remove(&loop->link);
    nb_watchdog_remove(loop);
    nb_loop_close_kernel_side(loop);
    nb_list_clear(&loop->before_poll);
    nb_list_clear(&loop->next_poll);
    nb_list_clear(&loop->at_rest);
    nb_list_clear(&loop->on_fork);
    nb_timers_free(&loop->timers);
    nb_ptrmap_free(&loop->parked);
    nb_ptrmap_free(&loop->shields);
    nb_transferred_free(loop);
    nb_ptrmap_free(&loop->mutex_sleeps);
    nb_ptrmap_free(&loop->idle);
    free(loop->ready.items);
    loop->ready = (nb_ready_t){0};
}

static void loop_free(void *data)
{
    nb_loop_release(data);
    xfree(data);
}

static size_t loop_size(const void *data)
{
    const nb_loop_t *loop = data;
    return sizeof(*loop) + loop->fds.page_count * sizeof(nb_slot_t) * 256 +
           loop->timers.capacity * 16 + (loop->parked.mask + 1) * sizeof(nb_ptrmap_slot_t);
}

/* Not WB_PROTECTED: the fibers parked here change at every switch, and each minor GC has to scan
 * their stacks anyway. VALUEs are marked without moving them, because C stacks hold them, too. */
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
    loop->leader = loop->deferred = loop->early_unblocks = Qnil;
    nb_list_init(&loop->link);
    nb_list_init(&loop->watched.link);
    nb_list_init(&loop->before_poll);
    nb_list_init(&loop->next_poll);
    nb_list_init(&loop->at_rest);
    nb_list_init(&loop->on_fork);
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
    if (result == 0)
        result = open_wake_fds(loop->wake_fds);
    if (result < 0)
        return result;
    rb_update_max_fd(loop->wake_fds[1]);
    loop->mail = nb_mailbox_new(loop->wake_fds[1]);
    if (!loop->mail)
        return -ENOMEM;
    loop->wake_watch =
        (nb_watch_t){.fd = loop->wake_fds[0], .mask = NB_READABLE, .on_ready = nb_loop_on_wake_fd};
    loop->pid = getpid();
    return nb_fdtable_add(&loop->fds, &loop->wake_watch);
}

int nb_loop_open_kernel_side(nb_loop_t *loop, const nb_backend_ops_t *ops)
{
    loop->wake_fds[0] = loop->wake_fds[1] = -1;
    int result = open_kernel_side(loop, ops);
    if (result < 0)
        nb_loop_close_kernel_side(loop);
    return result;
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
    loop->early_unblocks = rb_funcall(rb_hash_new(), rb_intern("compare_by_identity"), 0);
    int result = nb_loop_open_kernel_side(loop, *ops);
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

/* At the thread's next step: between the end of Fiber.set_scheduler and the next line. */
static void give_back(rb_event_flag_t event, VALUE scheduler, VALUE self, ID id, VALUE klass)
{
    bool taken = NIL_P(rb_fiber_scheduler_get());
    if (taken || event == RUBY_EVENT_LINE)
        rb_thread_remove_event_hook(rb_thread_current(), give_back);
    if (taken)
        rb_fiber_scheduler_set(scheduler);
}

/* @!visibility private - raises in a fiber of the loop that would close it under the others. In a
 *   forked child, Ruby closes the scheduler in whichever fiber forked: that one is the last.
 *
 * Ruby 3.4's Fiber.set_scheduler takes the scheduler from the thread all the same. */
static VALUE rb_nb_scheduler_refuse_close(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    bool inside = loop->runner || !NIL_P(loop->leader) ||
                  !RTEST(rb_funcall(rb_fiber_current(), rb_intern("blocking?"), 0));
    if (loop->forked || !inside)
        return Qnil;
    rb_thread_add_event_hook(rb_thread_current(), give_back, RUBY_EVENT_C_RETURN | RUBY_EVENT_LINE,
                             self);
    rb_raise(rb_path2class("FiberError"),
             "a fiber cannot close the loop that runs it, nor give its thread another scheduler: "
             "call Fiber.set_scheduler where NB.run has ended, or in a thread of its own");
}

/* @!visibility private - whether an exception, such as that of exit, ends this forked child: not
 *   one that its parent was rescuing when it forked. */
static VALUE rb_nb_scheduler_cut_off_p(VALUE self)
{
    nb_loop_t *loop = nb_loop_any(self);
    VALUE error = rb_errinfo();
    return loop->forked && error != loop->rescued && nb_is_exception(error) ? Qtrue : Qfalse;
}

/* @!visibility private - frees the kernel's resources; the last step of #close. */
static VALUE rb_nb_scheduler_release(VALUE self)
{
    nb_loop_t *loop = rb_check_typeddata(self, &nb_loop_type);
#ifdef __linux__
    if (loop->thread)
        prctl(PR_SET_TIMERSLACK, loop->old_timer_slack, 0, 0, 0);
#endif
    nb_loop_release(loop);
    return Qnil;
}

static void bind_thread(nb_loop_t *loop)
{
    loop->thread = rb_thread_current();
    nb_watchdog_add(loop);
#ifdef __linux__
    loop->old_timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
#endif
}

static inline nb_loop_t *loop_of(VALUE scheduler)
{
    return nb_is_loop(scheduler) ? RTYPEDDATA_DATA(scheduler)
                                 : rb_check_typeddata(scheduler, &nb_loop_type);
}

nb_loop_t *nb_loop_any(VALUE scheduler)
{
    return loop_of(scheduler);
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
             ": another thread may call only unblock, fiber_interrupt, stats and waits",
             rb_inspect(loop->thread), rb_inspect(rb_thread_current()));
}

nb_loop_t *nb_loop_get(VALUE scheduler)
{
    nb_loop_t *loop = loop_of(scheduler);
    if (nb_loops_stale)
        nb_loops_stale();
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
    if (!nb_is_loop(scheduler))
        return NULL;
    return nb_loop_get(scheduler);
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
    rb_define_private_method(rb_cNBScheduler, "keep_value", rb_nb_scheduler_keep_value, 0);
    rb_define_private_method(rb_cNBScheduler, "refuse_close", rb_nb_scheduler_refuse_close, 0);
    rb_define_private_method(rb_cNBScheduler, "cut_off?", rb_nb_scheduler_cut_off_p, 0);
    rb_define_private_method(rb_cNBScheduler, "release", rb_nb_scheduler_release, 0);
    VALUE mNative = rb_define_module_under(mNB, "Native");
    nb_watchdog_init();
    rb_define_singleton_method(mNative, "backends", rb_nb_native_backends, 0);
}
