/* mysql_timeout_test.c - the timeouts of the MySQL client library. Uses no library. */
#include "drivers/mysql_library.h"
#include "test.h"

#define DAY 86400

static void with_tls_it_gives_seconds(void)
{
    CHECK_EQ(5 + 30 * NB_NS_PER_S, nb_mysql_deadline(5, 30, true));
    CHECK_EQ(5 + 30 * NB_NS_PER_S, nb_mysql_deadline(5, 30000, false));
}

static void nothing_or_less_is_never(void)
{
    CHECK(nb_mysql_deadline(5, 0, true) == NB_NEVER);
    CHECK(nb_mysql_deadline(5, -1, false) == NB_NEVER);
}

static void thirty_days_fit(void)
{
    CHECK_EQ(30 * DAY * NB_NS_PER_S, nb_mysql_deadline(0, 30 * DAY, true));
    CHECK_EQ(INT32_MAX * NB_NS_PER_S, nb_mysql_deadline(0, INT32_MAX, true));
}

int main(void)
{
    RUN(with_tls_it_gives_seconds);
    RUN(nothing_or_less_is_never);
    RUN(thirty_days_fit);
    return test_report();
}
