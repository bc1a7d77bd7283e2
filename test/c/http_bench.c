/* http_bench.c - how long one request head takes. Prints nanoseconds per request and MB/s.
 *
 * Run: cc -O3 -o b test/c/http_bench.c ext/neverblock/http/{head,target,field}.c && ./b [rounds]
 * The browser request is the kind that h2o/picohttpparser's own bench.c uses: 703 bytes, 9 fields.
 */
#include "../../ext/neverblock/http/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char BROWSER[] =
    "GET /wp-content/uploads/2010/03/hello-kitty-darth-vader-pink.jpg HTTP/1.1\r\n"
    "Host: www.kittyhell.com\r\n"
    "User-Agent: Mozilla/5.0 (Macintosh; U; Intel Mac OS X 10.6; ja-JP-mac; rv:1.9.2.3) "
    "Gecko/20100401 Firefox/3.6.3 Pathtraq/0.9\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: ja,en-us;q=0.7,en;q=0.3\r\n"
    "Accept-Encoding: gzip,deflate\r\n"
    "Accept-Charset: Shift_JIS,utf-8;q=0.7,*;q=0.7\r\n"
    "Keep-Alive: 115\r\n"
    "Connection: keep-alive\r\n"
    "Cookie: wp_ozh_wsa_visits=2; wp_ozh_wsa_visit_lasttime=xxxxxxxxxx; "
    "__utma=xxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.x; "
    "__utmz=xxxxxxxxx.xxxxxxxxxx.x.x.utmccn=(referral)|utmcsr=reader.livedoor.com|"
    "utmcct=/reader/|utmcmd=referral\r\n\r\n";
static const char SMALL[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1:9292\r\n\r\n";
static const nb_head_limits_t LIMITS = {
    .line_bytes = 8192, .head_bytes = 65536, .field_count = 100};

static void bench(const char *name, const char *bytes, size_t size, long rounds)
{
    struct timespec from, to;
    nb_field_t fields[100];
    nb_head_t head;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < rounds; i++) {
        nb_head_start(&head);
        if (nb_head_read(&head, bytes, size, fields, 100, &LIMITS) != NB_HEAD_DONE)
            exit(1);
        __asm__ volatile("" ::"r"(&head), "r"(fields) : "memory");
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
                (double)rounds;
    printf("%-8s %4zu bytes %6.1f ns %7.0f MB/s\n", name, size, ns, (double)size * 1e3 / ns);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 2000000;
    bench("small", SMALL, sizeof(SMALL) - 1, rounds);
    bench("browser", BROWSER, sizeof(BROWSER) - 1, rounds);
    return 0;
}
