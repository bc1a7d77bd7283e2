/* delayd_test.c - the whole delay server under real sockets, one server per test.
 */
#include "base/clock.h"
#include "delayd/delayd.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MS 1000000ull

static nb_delayd_t server;
static pthread_t thread;
static int run_result;

static void *run(void *nothing)
{
    (void)nothing;
    do
        run_result = nb_delayd_run(&server);
    while (run_result == -EINTR);
    return NULL;
}

static void start(nb_delayd_options_t options)
{
    options.bind = "127.0.0.1";
    CHECK_EQ(0, nb_delayd_open(&server, &options));
    CHECK(server.port > 0);
    pthread_create(&thread, NULL, run, NULL);
}

static void stop(void)
{
    nb_delayd_stop(&server);
    pthread_join(thread, NULL);
    CHECK_EQ(0, run_result);
    nb_delayd_close(&server);
    CHECK_EQ(0, server.stats.open);
}

static int open_socket(int receive_bytes)
{
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_bytes > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    return fd;
}

static int reach_server(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server.port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    CHECK_EQ(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    return fd;
}

static int dial_with(int receive_bytes)
{
    return reach_server(open_socket(receive_bytes));
}

static int dial(void)
{
    return dial_with(0);
}

static void say(int fd, const char *words)
{
    CHECK_EQ(strlen(words), send(fd, words, strlen(words), MSG_NOSIGNAL));
}

static int hear_error; /* how the last hear ended: 0, or the errno of a reset or a time-out */

/* Reads until the text ends like this, or the connection does. Returns the bytes read. */
static size_t hear(int fd, char *text, size_t size, const char *ending)
{
    size_t at = 0;
    text[0] = 0;
    while (at + 1 < size) {
        ssize_t got = recv(fd, text + at, size - 1 - at, 0);
        hear_error = got < 0 ? errno : 0;
        if (got <= 0)
            break;
        at += (size_t)got;
        text[at] = 0;
        if (ending && at >= strlen(ending) && strcmp(text + at - strlen(ending), ending) == 0)
            break;
    }
    return at;
}

static bool at_end(int fd)
{
    char byte;
    return recv(fd, &byte, 1, 0) == 0;
}

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"

static void answers_and_keeps_the_connection(void)
{
    char text[512];
    start((nb_delayd_options_t){.body_bytes = 4});
    int fd = dial();
    for (int i = 0; i < 3; i++) {
        say(fd, "GET / HTTP/1.1\r\n\r\n");
        hear(fd, text, sizeof(text), "done");
        CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    }
    say(fd, "HEAD /?bytes=99999 HTTP/1.1\r\nConnection: close\r\n\r\n");
    hear(fd, text, sizeof(text), NULL);
    CHECK(strstr(text, "Content-Length: 99999\r\nConnection: close\r\n\r\n"));
    CHECK(strcmp(text + strlen(text) - 4, "\r\n\r\n") == 0);
    close(fd);
    stop();
    CHECK_EQ(4, server.stats.answered);
    CHECK_EQ(1, server.stats.accepted);
}

static void closes_when_asked(void)
{
    char text[512];
    start((nb_delayd_options_t){.body_bytes = 4, .close = true});
    int fd = dial();
    say(fd, "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    hear(fd, text, sizeof(text), NULL);
    CHECK(strcmp(text, ANSWER "Connection: close\r\n\r\ndone") == 0);
    close(fd);
    stop();
    start((nb_delayd_options_t){.body_bytes = 4});
    fd = dial();
    say(fd, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    hear(fd, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "Connection: keep-alive\r\n\r\ndone") == 0);
    say(fd, "GET / HTTP/1.0\r\n\r\n");
    hear(fd, text, sizeof(text), NULL);
    CHECK(strcmp(text, ANSWER "Connection: close\r\n\r\ndone") == 0);
    close(fd);
    stop();
}

static void pipelined_requests_are_answered_in_order(void)
{
    enum { COUNT = 3000 };
    char *sent = malloc(COUNT * 64), *text = malloc(COUNT * 128), *at = text, want[32];
    size_t length = 0;
    start((nb_delayd_options_t){.body_bytes = 4});
    int fd = dial();
    for (int i = 0; i < COUNT; i++)
        length += (size_t)sprintf(sent + length, "GET /?bytes=%d%s HTTP/1.1\r\n%s\r\n", i % 10,
                                  i % 500 == 7 ? "&ms=2" : "",
                                  i + 1 == COUNT ? "Connection: close\r\n" : "");
    CHECK_EQ(length, send(fd, sent, length, MSG_NOSIGNAL));
    hear(fd, text, COUNT * 128, NULL);
    for (int i = 0; i < COUNT && at; i++) {
        sprintf(want, "Content-Length: %d\r\n", i % 10);
        at = strstr(at, "Content-Length: ");
        CHECK(at && strncmp(at, want, strlen(want)) == 0);
        at = at ? at + 1 : NULL;
    }
    CHECK(at && !strstr(at, "HTTP/"));
    free(sent);
    free(text);
    close(fd);
    stop();
    CHECK_EQ(COUNT, server.stats.answered);
}

static void a_request_may_come_byte_by_byte(void)
{
    const char *head = "POST /?ms=1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    char text[512], byte[2] = {0};
    start((nb_delayd_options_t){.body_bytes = 4});
    int fd = dial(), nodelay = 1;
    setsockopt(fd, 6, 1, &nodelay, sizeof(nodelay));
    for (int i = 0; i < 2; i++) {
        for (const char *p = head; *p; p++) {
            byte[0] = *p;
            say(fd, byte);
        }
        hear(fd, text, sizeof(text), "done");
        CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    }
    close(fd);
    stop();
}

/* More than one turn reads, all there before the first: nothing new comes to wake the server. */
static void what_a_turn_leaves_is_read_in_the_next(void)
{
    char text[512], body[50000] = {0};
    CHECK_EQ(0, nb_delayd_open(&server, &(nb_delayd_options_t){.bind = "127.0.0.1"}));
    int fd = dial();
    say(fd, "POST /?bytes=4 HTTP/1.1\r\nContent-Length: 50000\r\n\r\n");
    CHECK_EQ(sizeof(body), send(fd, body, sizeof(body), MSG_NOSIGNAL));
    pthread_create(&thread, NULL, run, NULL);
    hear(fd, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    close(fd);
    stop();
}

static void no_answer_is_early(void)
{
    char text[512];
    start((nb_delayd_options_t){.body_bytes = 4, .delay_ns = 20 * MS});
    int fd = dial();
    for (int i = 0; i < 10; i++) {
        uint64_t before = nb_clock_now();
        say(fd, i % 2 ? "GET / HTTP/1.1\r\n\r\n" : "GET /?ms=3.5 HTTP/1.1\r\n\r\n");
        hear(fd, text, sizeof(text), "done");
        uint64_t took = nb_clock_now() - before, delay = i % 2 ? 20 * MS : 7 * MS / 2;
        CHECK(took >= delay && took < delay + 200 * MS);
    }
    close(fd);
    stop();
}

static void delays_of_many_connections_pass_together(void)
{
    enum { COUNT = 200 };
    char text[512];
    int fds[COUNT];
    start((nb_delayd_options_t){.body_bytes = 4});
    uint64_t before = nb_clock_now();
    for (int i = 0; i < COUNT; i++)
        say(fds[i] = dial(), "GET /?ms=150 HTTP/1.1\r\n\r\n");
    for (int i = 0; i < COUNT; i++) {
        hear(fds[i], text, sizeof(text), "done");
        CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
        close(fds[i]);
    }
    CHECK(nb_clock_now() - before < 2000 * MS);
    stop();
}

static void a_long_body_waits_for_a_slow_reader(void)
{
    enum { BODY = 40000001 };
    char text[65536], *body;
    size_t heard = 0;
    bool intact = true;
    start((nb_delayd_options_t){.body_bytes = 4});
    int slow = dial_with(4096), quick = dial();
    say(slow, "GET /?bytes=40000001 HTTP/1.1\r\n\r\nGET /?ms=1 HTTP/1.1\r\n\r\n");
    say(quick, "GET / HTTP/1.1\r\n\r\n");
    hear(quick, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    while (!(body = strstr(text, "\r\n\r\n")) || strstr(text, "Length: 4\r"))
        hear(slow, text, 128, "\r\n\r\n");
    for (char *p = body + 4; *p; p++, heard++)
        intact = intact && *p == "done"[heard % 4];
    while (heard < BODY) {
        ssize_t got =
            recv(slow, text, heard + sizeof(text) < BODY ? sizeof(text) : BODY - heard, 0);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++, heard++)
            intact = intact && text[i] == "done"[heard % 4];
    }
    CHECK(intact);
    CHECK_EQ(BODY, heard);
    hear(slow, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    close(slow);
    close(quick);
    stop();
}

/* What a reader who reads nothing costs is bounded: the server stops taking his requests. */
static void a_client_that_never_reads_is_left_alone(void)
{
    char requests[18 * 100 + 1] = "", text[512];
    ssize_t sent = 0, got;
    for (int i = 0; i < 100; i++)
        strcat(requests, "GET / HTTP/1.1\r\n\r\n");
    start((nb_delayd_options_t){.body_bytes = 4000});
    int deaf = dial_with(4096), other = dial();
    while ((got = send(deaf, requests, 1800, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0 ||
           poll(&(struct pollfd){.fd = deaf, .events = POLLOUT}, 1, 100) == 1)
        sent += got > 0 ? got : 0;
    CHECK(sent < 100000000);
    say(other, "GET /?bytes=4 HTTP/1.1\r\n\r\n");
    hear(other, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    close(deaf);
    close(other);
    stop();
}

static void a_half_closed_client_still_gets_its_answer(void)
{
    char text[512];
    start((nb_delayd_options_t){.body_bytes = 4});
    int fd = dial();
    say(fd, "GET /?ms=20 HTTP/1.1\r\n\r\n");
    shutdown(fd, SHUT_WR);
    hear(fd, text, sizeof(text), NULL);
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    CHECK(at_end(fd));
    close(fd);
    stop();
}

static void bad_requests_get_400_and_a_clean_end(void)
{
    char text[512], junk[100000];
    start((nb_delayd_options_t){.body_bytes = 4});
    int fd = dial();
    memset(junk, 'x', sizeof(junk));
    say(fd, "GET / HTTP/1.1\r\n\r\nGET /?ms=-1 HTTP/1.1\r\n\r\n");
    memset(text, 0, sizeof(text));
    while (recv(fd, text, sizeof(text) - 1, MSG_PEEK) > 0 && !strstr(text, "takes milliseconds"))
        usleep(1000); /* refused before the rest arrives */
    CHECK_EQ(sizeof(junk), send(fd, junk, sizeof(junk), MSG_NOSIGNAL));
    hear(fd, text, sizeof(text), NULL);
    CHECK(strncmp(text, ANSWER "\r\ndoneHTTP/1.1 400 Bad Request\r\n", 30) == 0);
    CHECK(strstr(text, "Connection: close\r\n"));
    CHECK(strstr(text, "ms= takes milliseconds"));
    CHECK_EQ(0, hear_error); /* not a reset, though it sent more than was read */
    close(fd);
    stop();
    CHECK_EQ(1, server.stats.refused);
}

static void clients_may_vanish_at_any_moment(void)
{
    static const char *words[] = {"",
                                  "GET / HT",
                                  "GET /?ms=5 HTTP/1.1\r\n\r\n",
                                  "\x16\x03\x01",
                                  "GET /?bytes=9999999 HTTP/1.1\r\n\r\n",
                                  "\n\n",
                                  "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"};
    char text[512];
    struct linger reset = {.l_onoff = 1};
    start((nb_delayd_options_t){.body_bytes = 4});
    for (int i = 0; i < 700; i++) {
        int fd = dial();
        say(fd, words[i % 7]);
        if (i % 3 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        if (i % 3 == 1)
            shutdown(fd, SHUT_WR);
        close(fd);
    }
    int fd = dial();
    say(fd, "GET / HTTP/1.1\r\n\r\n");
    hear(fd, text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    close(fd);
    stop();
    CHECK_EQ(701, server.stats.accepted);
}

static void running_out_of_descriptors_is_only_a_pause(void)
{
    struct rlimit limit, low;
    char text[512];
    int fds[8];
    start((nb_delayd_options_t){.body_bytes = 4});
    for (int i = 0; i < 8; i++)
        fds[i] = open_socket(0);
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = (rlim_t)fds[7] + 1; /* not one more: accept(2) fails with EMFILE */
    setrlimit(RLIMIT_NOFILE, &low);
    reach_server(fds[0]);
    say(fds[0], "GET / HTTP/1.1\r\n\r\n");
    CHECK_EQ(0, poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 250));
    setrlimit(RLIMIT_NOFILE, &limit);
    hear(fds[0], text, sizeof(text), "done");
    CHECK(strcmp(text, ANSWER "\r\ndone") == 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    stop();
}

static void stops_with_connections_in_every_state(void)
{
    start((nb_delayd_options_t){.body_bytes = 4});
    int idle = dial(), delayed = dial(), writing = dial_with(4096), part = dial(), done = dial();
    char text[512];
    say(delayed, "GET /?ms=60000 HTTP/1.1\r\n\r\nGET /");
    say(writing, "GET /?bytes=90000000 HTTP/1.1\r\n\r\nGET /");
    say(part, "GET");
    say(done, "GET / HTTP/1.1\r\n\r\n");
    hear(done, text, sizeof(text), "done");
    nb_delayd_interrupt(&server);
    stop();
    CHECK_EQ(5, server.stats.accepted);
    CHECK(at_end(idle));
    close(idle);
    close(delayed);
    close(writing);
    close(part);
    close(done);
    CHECK_EQ(0, nb_delayd_open(&server, &(nb_delayd_options_t){.bind = "127.0.0.1"}));
    nb_delayd_stop(&server);
    CHECK_EQ(0, nb_delayd_run(&server));
    nb_delayd_close(&server);
    nb_delayd_close(&server);
}

static void a_port_in_use_is_an_error_unless_shared(void)
{
    nb_delayd_t one, two;
    nb_delayd_options_t options = {.bind = "127.0.0.1", .shared = true};
    CHECK_EQ(0, nb_delayd_open(&one, &options));
    options.port = one.port;
    CHECK_EQ(0, nb_delayd_open(&two, &options));
    nb_delayd_close(&two);
    options.shared = false;
    CHECK_EQ(-EADDRINUSE, nb_delayd_open(&two, &options));
    options.bind = "no such host";
    CHECK_EQ(-EADDRNOTAVAIL, nb_delayd_open(&two, &options));
    nb_delayd_close(&one);
}

int main(void)
{
    RUN(answers_and_keeps_the_connection);
    RUN(closes_when_asked);
    RUN(pipelined_requests_are_answered_in_order);
    RUN(a_request_may_come_byte_by_byte);
    RUN(what_a_turn_leaves_is_read_in_the_next);
    RUN(no_answer_is_early);
    RUN(delays_of_many_connections_pass_together);
    RUN(a_long_body_waits_for_a_slow_reader);
    RUN(a_client_that_never_reads_is_left_alone);
    RUN(a_half_closed_client_still_gets_its_answer);
    RUN(bad_requests_get_400_and_a_clean_end);
    RUN(clients_may_vanish_at_any_moment);
    RUN(running_out_of_descriptors_is_only_a_pause);
    RUN(stops_with_connections_in_every_state);
    RUN(a_port_in_use_is_an_error_unless_shared);
    return test_report();
}
