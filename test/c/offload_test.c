/* offload_test.c - work goes to threads and comes back once; a closed mailbox gets nothing. */
#include "offload/pool.h"
#include "test.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#define WORKS 500

typedef struct {
    nb_work_t work;
    int ran, done, milliseconds;
} piece_t;

static atomic_int dropped;
static int done_count;

static void run(nb_work_t *work)
{
    piece_t *piece = nb_container_of(work, piece_t, work);
    piece->ran++;
    if (piece->milliseconds)
        usleep((useconds_t)piece->milliseconds * 1000);
}

static void done(nb_work_t *work)
{
    nb_container_of(work, piece_t, work)->done++;
    done_count++;
}

static void drop(nb_work_t *work)
{
    free(nb_container_of(work, piece_t, work));
    atomic_fetch_add(&dropped, 1);
}

static piece_t *piece_of(int milliseconds)
{
    piece_t *piece = calloc(1, sizeof(*piece));
    piece->work = (nb_work_t){.run = run, .done = done, .drop = drop};
    piece->milliseconds = milliseconds;
    return piece;
}

static void every_piece_comes_back_once(void)
{
    int wake = eventfd(0, EFD_NONBLOCK);
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    static piece_t *pieces[WORKS];
    done_count = 0;
    for (int i = 0; i < WORKS; i++)
        CHECK_EQ(0, nb_offload(mail, &(pieces[i] = piece_of(0))->work));
    for (int turns = 0; done_count < WORKS && turns < 5000; turns++) {
        struct pollfd fd = {wake, POLLIN, 0};
        uint64_t count;
        if (poll(&fd, 1, 1000) == 1 && read(wake, &count, sizeof(count)) > 0)
            nb_mailbox_collect(mail);
    }
    CHECK_EQ(WORKS, done_count);
    for (int i = 0; i < WORKS; i++) {
        CHECK_EQ(1, pieces[i]->ran);
        CHECK_EQ(1, pieces[i]->done);
        free(pieces[i]);
    }
    nb_mailbox_close(mail);
    close(wake);
}

static void work_of_a_closed_mailbox_is_dropped(void)
{
    int wake = eventfd(0, EFD_NONBLOCK);
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    for (int i = 0; i < 10; i++)
        nb_offload(mail, &piece_of(20)->work);
    nb_mailbox_close(mail);
    for (int waited = 0; atomic_load(&dropped) < 10 && waited < 5000; waited++)
        usleep(1000);
    CHECK_EQ(10, atomic_load(&dropped));
    close(wake);
}

static piece_t *slow_piece(int milliseconds)
{
    piece_t *piece = piece_of(milliseconds);
    piece->work.slow = true;
    return piece;
}

/* Collects until the piece is done, or for so many milliseconds. */
static bool is_done_within(nb_mailbox_t *mail, int wake, const piece_t *piece, int milliseconds)
{
    uint64_t count;
    for (int i = 0; i < milliseconds && !piece->done; i++) {
        struct pollfd fd = {wake, POLLIN, 0};
        if (poll(&fd, 1, 1) == 1 && read(wake, &count, sizeof(count)) > 0)
            nb_mailbox_collect(mail);
    }
    return piece->done;
}

static void no_disk_waits_for_slow_work(void)
{
    int wake = eventfd(0, EFD_NONBLOCK);
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    static piece_t *slow[2 * NB_OFFLOAD_THREADS];
    for (int i = 0; i < 2 * NB_OFFLOAD_THREADS; i++)
        CHECK_EQ(0, nb_offload(mail, &(slow[i] = slow_piece(1500))->work));
    piece_t *quick = piece_of(0), *last = slow[2 * NB_OFFLOAD_THREADS - 1];
    CHECK_EQ(0, nb_offload(mail, &quick->work));
    CHECK(is_done_within(mail, wake, quick, 1000));
    CHECK_EQ(0, slow[0]->done);
    CHECK(is_done_within(mail, wake, last, 20000));
    for (int i = 0; i < 2 * NB_OFFLOAD_THREADS; i++)
        CHECK_EQ(1, slow[i]->ran);
    free(quick);
    nb_mailbox_close(mail);
    close(wake);
}

static void work_that_has_not_begun_can_be_withdrawn(void)
{
    int wake = eventfd(0, EFD_NONBLOCK);
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    static piece_t *slow[NB_OFFLOAD_SLOW + 1];
    for (int i = 0; i <= NB_OFFLOAD_SLOW; i++)
        CHECK_EQ(0, nb_offload(mail, &(slow[i] = slow_piece(500))->work));
    piece_t *next = slow[NB_OFFLOAD_SLOW], *quick = piece_of(0);
    CHECK(nb_offload_withdraw(&next->work));
    CHECK(!nb_offload_withdraw(&next->work));
    CHECK_EQ(0, nb_offload(mail, &quick->work));
    CHECK(is_done_within(mail, wake, quick, 5000));
    CHECK(!nb_offload_withdraw(&quick->work));
    for (int i = 0; i < NB_OFFLOAD_SLOW; i++)
        CHECK(is_done_within(mail, wake, slow[i], 5000));
    CHECK_EQ(0, next->ran + next->done);
    free(quick);
    nb_mailbox_close(mail);
    close(wake);
}

/* Returns 0 when a child without threads of the parent's has its own work done. */
static int works_in_a_child(void)
{
    int threads, queued, wake = eventfd(0, EFD_NONBLOCK);
    nb_offload_counts(&threads, &queued);
    if (threads || queued)
        return 1;
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    struct pollfd fd = {wake, POLLIN, 0};
    piece_t *piece = piece_of(0);
    if (nb_offload(mail, &piece->work) || poll(&fd, 1, 5000) != 1)
        return 2;
    nb_mailbox_collect(mail);
    return piece->done == 1 ? 0 : 3;
}

static void a_forked_child_has_none_of_the_threads_nor_their_work(void)
{
    int wake = eventfd(0, EFD_NONBLOCK), status = -1;
    nb_mailbox_t *mail = nb_mailbox_new(wake);
    atomic_store(&dropped, 0);
    for (int i = 0; i < 10; i++)
        nb_offload(mail, &piece_of(20)->work);
    pid_t child = fork();
    if (child == 0)
        _exit(works_in_a_child());
    waitpid(child, &status, 0);
    CHECK_EQ(0, status);
    nb_mailbox_close(mail);
    for (int waited = 0; atomic_load(&dropped) < 10 && waited < 5000; waited++)
        usleep(1000);
    CHECK_EQ(10, atomic_load(&dropped));
    close(wake);
}

int main(void)
{
    RUN(every_piece_comes_back_once);
    RUN(work_of_a_closed_mailbox_is_dropped);
    RUN(no_disk_waits_for_slow_work);
    RUN(work_that_has_not_begun_can_be_withdrawn);
    RUN_NATIVELY(a_forked_child_has_none_of_the_threads_nor_their_work);
    return test_report();
}
