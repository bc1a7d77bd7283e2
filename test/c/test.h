/* test.h - the smallest frame for tests of pure C. One program per *_test.c, run by `rake test:c`.
 *
 * A line "Sources: room/a.c room/b.c" in the head of a test names the files of ext/neverblock that
 * are compiled with it. All of it runs under ASan and UBSan.
 */
#ifndef NB_TEST_H
#define NB_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int test_passed, test_failed;
static bool test_ok;
static const char *test_name;

static inline void test_fail(const char *file, int line, const char *what)
{
    test_ok = false;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, test_name, what);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            test_fail(__FILE__, __LINE__, "not true: " #condition);                                \
    } while (0)

#define CHECK_EQ(expected, actual)                                                                 \
    do {                                                                                           \
        long long want = (long long)(expected), got = (long long)(actual);                         \
        if (want != got) {                                                                         \
            char words[256];                                                                       \
            snprintf(words, sizeof(words), "%s is %lld, not %lld", #actual, got, want);            \
            test_fail(__FILE__, __LINE__, words);                                                  \
        }                                                                                          \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        test_ok = true;                                                                            \
        test_name = #test;                                                                         \
        test();                                                                                    \
        test_ok ? test_passed++ : test_failed++;                                                   \
    } while (0)

/* Not under qemu-user: /proc then tells the system calls of the machine below, and version 7.2
 * fails itself in the child of a process with several threads. */
#ifdef NB_EMULATED
#define RUN_NATIVELY(test) ((void)(test))
#else
#define RUN_NATIVELY(test) RUN(test)
#endif

/* The last line of main. */
static inline int test_report(void)
{
    printf("%d passed, %d failed\n", test_passed, test_failed);
    return test_failed > 0;
}

/* A copy of the bytes that ends where unreadable memory begins: to read one too many is to crash.
 */
typedef struct {
    char *bytes, *map;
    size_t map_size;
} guarded_t;

static inline guarded_t guard(const char *bytes, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), data = (count + page - 1) / page * page;
    guarded_t guarded = {.map_size = data + page};
    guarded.map =
        mmap(NULL, guarded.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded.map == MAP_FAILED || mprotect(guarded.map + data, page, PROT_NONE) != 0) {
        perror("guard");
        exit(2);
    }
    guarded.bytes = guarded.map + data - count;
    if (count > 0)
        memcpy(guarded.bytes, bytes, count);
    return guarded;
}

static inline void unguard(guarded_t guarded)
{
    munmap(guarded.map, guarded.map_size);
}

#endif
