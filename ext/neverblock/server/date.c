/* date.c - the text of the Date field. Uses ruby.h.
 *
 * Read after: date.h. Used by: refusal.c, response_head.c, response.c.
 */
#include "server/date.h"
#include <time.h>

/* Not exact to the nanosecond, where that is cheaper. */
#ifdef CLOCK_REALTIME_COARSE
#define CLOCK CLOCK_REALTIME_COARSE
#else
#define CLOCK CLOCK_REALTIME
#endif

/* One text per second, RFC 9110 5.6.7. */
const char *nb_server_date(nb_server_t *server)
{
    struct timespec now;
    clock_gettime(CLOCK, &now);
    if (now.tv_sec != server->date_second) {
        struct tm tm;
        gmtime_r(&now.tv_sec, &tm);
        strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        server->date_second = now.tv_sec;
    }
    return server->date;
}
