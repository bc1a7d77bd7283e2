/* date.c - the text of the Date field. Uses ruby.h.
 *
 * Read after: date.h.
 */
#include "server/date.h"
#include <stdio.h>
#include <time.h>

/* Not exact to the nanosecond, where that is cheaper. */
#ifdef CLOCK_REALTIME_COARSE
#define CLOCK CLOCK_REALTIME_COARSE
#else
#define CLOCK CLOCK_REALTIME
#endif

/* Not strftime: a library may have set a locale for the whole process, as gtk_init does, and RFC
 * 9110 5.6.7 wants English names. Those of other languages are not 29 bytes long in all. */
static void write_date(char *text, size_t size, const struct tm *tm)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    snprintf(text, size, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm->tm_wday], tm->tm_mday,
             months[tm->tm_mon], tm->tm_year + 1900, tm->tm_hour, tm->tm_min, tm->tm_sec);
}

/* One text per second. */
const char *nb_server_date(nb_server_t *server)
{
    struct timespec now;
    clock_gettime(CLOCK, &now);
    if (now.tv_sec != server->date_second) {
        struct tm tm;
        gmtime_r(&now.tv_sec, &tm);
        write_date(server->date, sizeof(server->date), &tm);
        server->date_second = now.tv_sec;
    }
    return server->date;
}
