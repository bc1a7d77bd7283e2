/* fdtable_test.c - who waits for which fd, on every backend, while files change behind numbers.
 *
 * Sources: backend
 */
#include "loop/fdtable.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

typedef struct {
    nb_watch_t watch;
    int mask, calls;
} probe_t;

static nb_fdtable_t table;
static const nb_backend_ops_t *ops;

static void note(nb_watch_t *watch, int mask)
{
    probe_t *probe = nb_container_of(watch, probe_t, watch);
    probe->mask |= mask;
    probe->calls++;
}

static probe_t probe_of(int fd, int mask)
{
    return (probe_t){.watch = {.fd = fd, .mask = mask, .on_ready = note}};
}

/* One turn as the loop makes it. */
static int turn(bool sleeping, int64_t timeout_ns)
{
    nb_event_t events[64];
    if (table.backend.ops->edge)
        nb_fdtable_verify(&table, sleeping);
    int count = table.backend.ops->wait(&table.backend, events, 64, timeout_ns);
    for (int i = 0; i < count; i++)
        nb_fdtable_dispatch(&table, &events[i]);
    return count;
}

static void a_byte_wakes_its_reader_only(void)
{
    int pair[2];
    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    probe_t reader = probe_of(pair[0], NB_READABLE), other = probe_of(pair[1], NB_READABLE);
    CHECK_EQ(0, nb_fdtable_add(&table, &reader.watch));
    CHECK_EQ(0, nb_fdtable_add(&table, &other.watch));
    turn(true, 0);
    CHECK_EQ(0, reader.calls);
    CHECK_EQ(1, write(pair[1], "x", 1));
    turn(true, 1000000000);
    CHECK_EQ(NB_READABLE, reader.mask & NB_READABLE);
    CHECK_EQ(0, other.calls);
    nb_fdtable_remove(&table, &reader.watch);
    nb_fdtable_remove(&table, &reader.watch); /* again: nothing happens */
    nb_fdtable_remove(&table, &other.watch);
    CHECK_EQ(0, table.count);
    close(pair[0]);
    close(pair[1]);
}

static void two_readers_of_one_fd_both_wake(void)
{
    int ends[2];
    CHECK_EQ(0, pipe(ends));
    probe_t one = probe_of(ends[0], NB_READABLE), two = probe_of(ends[0], NB_READABLE);
    nb_fdtable_add(&table, &one.watch);
    nb_fdtable_add(&table, &two.watch);
    CHECK_EQ(1, write(ends[1], "x", 1));
    turn(true, 1000000000);
    CHECK(one.calls >= 1 && two.calls >= 1);
    nb_fdtable_remove(&table, &one.watch);
    nb_fdtable_remove(&table, &two.watch);
    close(ends[0]);
    close(ends[1]);
}

static void data_that_came_before_the_watch_is_seen(void)
{
    int ends[2];
    CHECK_EQ(0, pipe(ends));
    CHECK_EQ(1, write(ends[1], "x", 1));
    probe_t first = probe_of(ends[0], NB_READABLE);
    nb_fdtable_add(&table, &first.watch);
    turn(false, 0);
    CHECK(first.calls >= 1);
    nb_fdtable_remove(&table, &first.watch);
    /* The edge is spent, the byte still there: verifying before sleep brings it again. */
    probe_t second = probe_of(ends[0], NB_READABLE);
    nb_fdtable_add(&table, &second.watch);
    turn(true, 1000000000);
    CHECK(second.calls >= 1);
    nb_fdtable_remove(&table, &second.watch);
    close(ends[0]);
    close(ends[1]);
}

static void another_file_behind_the_number_is_noticed(void)
{
    int first[2], second[2];
    CHECK_EQ(0, pipe(first));
    probe_t before = probe_of(first[0], NB_READABLE);
    nb_fdtable_add(&table, &before.watch);
    turn(true, 0);
    nb_fdtable_remove(&table, &before.watch);
    CHECK_EQ(0, pipe(second));
    CHECK_EQ(first[0], dup2(second[0], first[0])); /* closed and reused, nobody told us */
    probe_t after = probe_of(first[0], NB_READABLE);
    nb_fdtable_add(&table, &after.watch);
    turn(true, 0);
    CHECK_EQ(0, after.calls);
    CHECK_EQ(1, write(second[1], "x", 1));
    turn(true, 1000000000);
    CHECK(after.calls >= 1);
    nb_fdtable_remove(&table, &after.watch);
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(second[i]);
    }
}

static void closing_wakes_and_says_so(void)
{
    int ends[2];
    CHECK_EQ(0, pipe(ends));
    probe_t reader = probe_of(ends[0], NB_READABLE);
    nb_fdtable_add(&table, &reader.watch);
    nb_fdtable_closing(&table, ends[0]);
    CHECK_EQ(NB_HANGUP | NB_ENDED | NB_CLOSED, reader.mask);
    nb_fdtable_remove(&table, &reader.watch);
    nb_fdtable_closing(&table, 100000); /* never seen: nothing happens */
    nb_fdtable_closing(&table, -1);
    close(ends[0]);
    close(ends[1]);
}

static void a_peer_that_sends_no_more_wakes_readers_only(void)
{
    int pair[2];
    char bytes[65536] = {0};
    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    while (write(pair[0], bytes, sizeof(bytes)) > 0)
        ;
    probe_t reader = probe_of(pair[0], NB_READABLE), writer = probe_of(pair[0], NB_WRITABLE);
    CHECK_EQ(0, nb_fdtable_add(&table, &reader.watch));
    CHECK_EQ(0, nb_fdtable_add(&table, &writer.watch));
    turn(true, 0);
    CHECK_EQ(0, shutdown(pair[1], SHUT_WR));
    turn(true, 1000000000);
    CHECK(reader.calls >= 1);
    CHECK_EQ(0, writer.calls);
    close(pair[1]);
    turn(true, 1000000000);
    CHECK_EQ(NB_WRITABLE, writer.mask & NB_WRITABLE);
    nb_fdtable_remove(&table, &reader.watch);
    nb_fdtable_remove(&table, &writer.watch);
    close(pair[0]);
}

static void a_closed_fd_is_an_error_or_wakes(void)
{
    int ends[2];
    CHECK_EQ(0, pipe(ends));
    close(ends[0]);
    probe_t reader = probe_of(ends[0], NB_READABLE);
    int result = nb_fdtable_add(&table, &reader.watch);
    if (result == 0) {
        turn(true, 1000000000);
        CHECK(reader.calls >= 1);
    } else {
        CHECK_EQ(-EBADF, result);
    }
    nb_fdtable_remove(&table, &reader.watch);
    probe_t negative = probe_of(-1, NB_READABLE);
    CHECK_EQ(-EBADF, nb_fdtable_add(&table, &negative.watch));
    close(ends[1]);
}

static void a_regular_file_is_always_ready(void)
{
    FILE *file = tmpfile();
    probe_t reader = probe_of(fileno(file), NB_READABLE);
    int result = nb_fdtable_add(&table, &reader.watch);
    if (result == 0)
        turn(true, 1000000000);
    CHECK((result | reader.mask) & NB_READABLE);
    nb_fdtable_remove(&table, &reader.watch);
    fclose(file);
}

static void events_for_nobody_end(void)
{
    int pair[2];
    char byte;
    CHECK_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    probe_t reader = probe_of(pair[0], NB_READABLE);
    nb_fdtable_add(&table, &reader.watch);
    nb_fdtable_remove(&table, &reader.watch);
    int seen = 0;
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(1, write(pair[1], "x", 1));
        seen += turn(false, 0);
        CHECK_EQ(1, read(pair[0], &byte, 1));
    }
    CHECK(seen <= 20);
    nb_fdtable_add(&table, &reader.watch);
    CHECK_EQ(1, write(pair[1], "x", 1));
    turn(true, 1000000000);
    CHECK(reader.calls >= 1);
    nb_fdtable_remove(&table, &reader.watch);
    close(pair[0]);
    close(pair[1]);
}

static void run_all(void)
{
    CHECK_EQ(0, nb_fdtable_open(&table, ops));
    RUN(a_byte_wakes_its_reader_only);
    RUN(two_readers_of_one_fd_both_wake);
    RUN(data_that_came_before_the_watch_is_seen);
    RUN(another_file_behind_the_number_is_noticed);
    RUN(closing_wakes_and_says_so);
    RUN(a_peer_that_sends_no_more_wakes_readers_only);
    RUN(a_closed_fd_is_an_error_or_wakes);
    RUN(a_regular_file_is_always_ready);
    RUN(events_for_nobody_end);
    nb_fdtable_close(&table);
}

int main(void)
{
    for (int i = 0; nb_backends[i]; i++) {
        ops = nb_backends[i];
        test_name = ops->name;
        run_all();
    }
    return test_report();
}
