/* stall_test.c - what is said of a loop that stood still, and how often. */
#include "loop/stall.h"
#include "base/clock.h"
#include "test.h"
#include <pthread.h>
#include <sys/file.h>
#include <sys/syscall.h>

#define MINUTE (60 * NB_NS_PER_S)

static nb_stall_t stall_at(const char *place)
{
    nb_stall_t stall = {.stood_ns = 250000000, .computed_ns = 250000000};
    snprintf(stall.place, sizeof(stall.place), "%s", place);
    return stall;
}

static void a_place_is_told_once_a_minute(void)
{
    nb_stall_t one = stall_at("a.rb:1"), other = stall_at("a.rb:2");
    unsigned unreported = 9;
    nb_stall_forget();
    CHECK(nb_stall_is_news(&one, MINUTE, &unreported));
    CHECK_EQ(0, unreported);
    CHECK(!nb_stall_is_news(&one, MINUTE + 1, &unreported));
    CHECK(!nb_stall_is_news(&one, 2 * MINUTE - 1, &unreported));
    CHECK(nb_stall_is_news(&other, MINUTE + 1, &unreported));
    CHECK(nb_stall_is_news(&one, 2 * MINUTE, &unreported));
    CHECK_EQ(2, unreported);
}

static void of_many_places_the_oldest_is_forgotten(void)
{
    char name[32];
    unsigned unreported;
    nb_stall_forget();
    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof(name), "a.rb:%d", i);
        nb_stall_t stall = stall_at(name);
        CHECK(nb_stall_is_news(&stall, MINUTE + (uint64_t)i, &unreported));
    }
    nb_stall_t first = stall_at("a.rb:0"), last = stall_at("a.rb:256");
    CHECK(!nb_stall_is_news(&last, MINUTE + 300, &unreported));
    CHECK(nb_stall_is_news(&first, MINUTE + 300, &unreported));
}

static bool says(const nb_stall_t *stall, unsigned unreported, const char *words)
{
    char text[1600];
    nb_stall_text(stall, unreported, text, sizeof(text));
    return strstr(text, words);
}

static void the_sentence_says_what_the_thread_did(void)
{
    nb_stall_t stall = stall_at("a.rb:1:in `x'");
    CHECK(
        says(&stall, 0, "has stood still for 250 ms at a.rb:1:in `x': it computes. NB.in_process"));
    CHECK(says(&stall, 3, "(3 more there since the last report)\n"));
    stall.collects = true;
    CHECK(says(&stall, 0, "it collects garbage"));
    stall.computed_ns = 0;
    stall.collects = false;
    CHECK(says(&stall, 0, "it waits outside the loop. NB.offload"));
    snprintf(stall.wait, sizeof(stall.wait), "in the system call read (fd 3)");
    stall.in_call = true;
    snprintf(stall.callee, sizeof(stall.callee), "IO#read");
    CHECK(says(&stall, 0,
               "`x' (IO#read): it waits outside the loop, in the system call read (fd 3)."));
    snprintf(stall.wait, sizeof(stall.wait), "for another thread or a timer");
    stall.in_call = false;
    snprintf(stall.callee, sizeof(stall.callee), "NB::Scheduler#block");
    CHECK(nb_stall_waited_for_gvl(&stall));
    CHECK(says(&stall, 0, "it waits for the GVL"));
    stall.callee[0] = stall.place[0] = '\0';
    CHECK(!nb_stall_waited_for_gvl(&stall));
    stall.wants_gvl = true;
    CHECK(nb_stall_waited_for_gvl(&stall));
    stall.wants_gvl = false;
    stall.in_ruby = true;
    CHECK(nb_stall_waited_for_gvl(&stall));
    CHECK(says(&stall, 0, "at an unknown place"));
}

/* Whether garbage is collected is asked of the whole process. */
static void who_waits_does_not_collect(void)
{
    nb_stall_t stall = stall_at("a.rb:1");
    stall.computed_ns = 0;
    stall.collects = stall.in_call = true;
    snprintf(stall.wait, sizeof(stall.wait), "in the system call flock (fd 7)");
    CHECK(
        says(&stall, 0, "it waits outside the loop, in the system call flock (fd 7). NB.offload"));
    stall.in_call = false;
    stall.in_ruby = true;
    snprintf(stall.wait, sizeof(stall.wait), "for another thread or a timer");
    CHECK(nb_stall_waited_for_gvl(&stall));
    CHECK(says(&stall, 0, "it waits for the GVL"));
    stall.wait[0] = '\0';
    CHECK(says(&stall, 0, "it collects garbage"));
    snprintf(stall.wait, sizeof(stall.wait), "in the system call munmap, for memory");
    stall.computed_ns = stall.stood_ns;
    CHECK(says(&stall, 0, "it collects garbage"));
}

/* Our hooks write small pieces to a disk while they have the GVL. */
static void a_slow_disk_is_not_the_gvl(void)
{
    nb_stall_t stall = stall_at("a.rb:1");
    stall.computed_ns = 0;
    stall.in_call = true;
    snprintf(stall.callee, sizeof(stall.callee), "NB::Scheduler#io_write");
    snprintf(stall.wait, sizeof(stall.wait), "in the system call pwritev2 (fd 7: /mnt/a)");
    CHECK(!nb_stall_waited_for_gvl(&stall));
    CHECK(says(&stall, 0,
               "it waits outside the loop, in the system call pwritev2 (fd 7: /mnt/a). NB.off"));
    stall.callee[0] = '\0';
    stall.in_ruby = true; /* for memory, say */
    snprintf(stall.wait, sizeof(stall.wait), "in the system call madvise, for memory");
    CHECK(!nb_stall_waited_for_gvl(&stall));
    stall.in_call = false;
    stall.wait[0] = '\0'; /* the kernel does not tell */
    snprintf(stall.callee, sizeof(stall.callee), "NB::Scheduler#io_write");
    CHECK(nb_stall_waited_for_gvl(&stall));
}

static void the_end_of_a_told_stall_says_how_long_it_was(void)
{
    char text[1600];
    nb_stall_t stall = stall_at("a.rb:1:in `x'");
    nb_stall_extend(&stall, 30012 * 1000000ull);
    snprintf(stall.callee, sizeof(stall.callee), "IO#read");
    nb_stall_end_text(&stall, text, sizeof(text));
    CHECK(strstr(text,
                 " runs again: it stood still for 30012 ms in total at a.rb:1:in `x' (IO#read)\n"));
    nb_stall_extend(&stall, 130 * 1000000ull); /* the rest was a wait for a core, it turns out */
    CHECK_EQ(30012 * 1000000ull, stall.stood_ns);
}

static void ruby_code_that_was_in_no_system_call_computes(void)
{
    nb_stall_t stall = stall_at("a.rb:1");
    stall.computed_ns = 50000000; /* others had the core, or the GVL */
    stall.runnable = stall.in_ruby = true;
    CHECK(says(&stall, 0, "it computes. NB.in_process"));
    stall.in_ruby = false;
    CHECK(says(&stall, 0, "it waits outside the loop. NB.offload"));
}

static void a_thread_without_a_core_stands_for_nothing(void)
{
    nb_stall_t stall = stall_at("");
    stall.computed_ns = 0;
    stall.runnable = true;
    CHECK(nb_stall_had_no_core(&stall));
    stall.runnable = false; /* it waits for a page, say */
    CHECK(!nb_stall_had_no_core(&stall));
    stall = stall_at("");
    stall.runnable = true; /* it computes */
    CHECK(!nb_stall_had_no_core(&stall));
    stall = stall_at("a.rb:1");
    stall.computed_ns = 0;
    stall.runnable = true; /* it took the signal */
    CHECK(!nb_stall_had_no_core(&stall));
}

/* No descriptor may be free to ask it with. */
static void what_the_kernel_does_not_tell_is_no_wait_for_a_core(void)
{
    nb_scheduled_t one = {.runs = 1, .queued_ns = 5}, two = {.runs = 2, .queued_ns = 7};
    nb_scheduled_t unknown = nb_stall_scheduled(0), here = nb_stall_scheduled(getpid());
    CHECK_EQ(2, nb_stall_queued_ns(one, two));
    CHECK_EQ(0, nb_stall_queued_ns(one, one));
    CHECK_EQ(0, nb_stall_queued_ns(unknown, two));
    CHECK_EQ(0, nb_stall_queued_ns(one, unknown));
    CHECK(access("/proc/self/schedstat", R_OK) || here.runs);
}

static int fds[2];
static volatile pid_t reader;

static void *read_nothing(void *unused)
{
    char byte;
    (void)unused;
    reader = (pid_t)syscall(SYS_gettid);
    (void)!read(fds[0], &byte, 1);
    return NULL;
}

static void a_thread_in_a_system_call_is_seen(void)
{
    pthread_t thread;
    nb_stall_t stall = {0};
    char wanted[64];
    CHECK_EQ(0, pipe(fds));
    snprintf(wanted, sizeof(wanted), "in the system call read (fd %d: pipe:", fds[0]);
    pthread_create(&thread, NULL, read_nothing, NULL);
    for (int i = 0; i < 10000 && (!reader || !strstr(stall.wait, wanted)); i++) {
        usleep(1000);
        if (reader)
            nb_stall_note_wait(&stall, reader);
    }
    CHECK(!strncmp(stall.wait, wanted, strlen(wanted)));
    CHECK(stall.in_call);
    CHECK_EQ(1, write(fds[1], "x", 1));
    pthread_join(thread, NULL);
}

int main(void)
{
    RUN(a_place_is_told_once_a_minute);
    RUN(of_many_places_the_oldest_is_forgotten);
    RUN(the_sentence_says_what_the_thread_did);
    RUN(who_waits_does_not_collect);
    RUN(a_slow_disk_is_not_the_gvl);
    RUN(the_end_of_a_told_stall_says_how_long_it_was);
    RUN(ruby_code_that_was_in_no_system_call_computes);
    RUN(a_thread_without_a_core_stands_for_nothing);
    RUN(what_the_kernel_does_not_tell_is_no_wait_for_a_core);
    RUN_NATIVELY(a_thread_in_a_system_call_is_seen);
    return test_report();
}
