/* start.c - X-Request-Start: when a proxy got the request. Pure C. Read after: start.h. */
#include "http/start.h"
#include <stdbool.h>

#define DIGITS 19              /* of the nanoseconds since 1970 */
#define OLDEST_S 1000000000ull /* 2001: earlier times have fewer than ten digits in seconds */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The size of the number tells its unit: a present-day time has 10, 13, 16 or 19 digits. */
uint64_t nb_start_parse(const char *bytes, size_t size)
{
    uint64_t ns = 0;
    int digits = 0;
    size_t at = size > 2 && bytes[0] == 't' && bytes[1] == '=' ? 2 : 0;
    for (; at < size && is_digit(bytes[at]) && digits < DIGITS; at++, digits++)
        ns = ns * 10 + (uint64_t)(bytes[at] - '0');
    if (digits < 10 || digits % 3 != 1)
        return 0;
    if (at < size && bytes[at] == '.') {
        for (at++; at < size && is_digit(bytes[at]); at++)
            if (digits < DIGITS) {
                ns = ns * 10 + (uint64_t)(bytes[at] - '0');
                digits++;
            }
    }
    if (at != size)
        return 0;
    for (; digits < DIGITS; digits++)
        ns *= 10;
    return ns / 1000000000 < OLDEST_S ? 0 : ns;
}
