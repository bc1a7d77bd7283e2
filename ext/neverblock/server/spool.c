/* spool.c - files for large request bodies. Uses ruby.h. Read after: spool.h, offload/pool.h. */
#include "server/spool.h"
#include "hooks/descriptor.h"
#include "offload/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE (4 << 20) /* bytes; freeing less takes under a millisecond */

/* ---- open ---------------------------------------------------------------------------------- */

static int open_nameless(const char *folder)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/neverblock-XXXXXX", folder);
#ifdef __linux__ /* overlayfs of older kernels has no O_TMPFILE either */
    int nameless = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return nameless;
#endif
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

int nb_spool_open(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = folder && *folder ? open_nameless(folder) : -1;
    return fd < 0 ? open_nameless(P_tmpdir) : fd;
}

/* ---- close --------------------------------------------------------------------------------- */

typedef struct {
    nb_work_t work;
    int fd; /* -1 once it is closed */
} nb_closing_t;

static void run_closing(nb_work_t *work)
{
    nb_closing_t *closing = nb_container_of(work, nb_closing_t, work);
    int fd = closing->fd;
    closing->fd = -1;
    if (fd >= 0)
        close(fd);
}

/* Also in a forked child, which has a copy of what had not run. */
static void end_closing(nb_work_t *work)
{
    run_closing(work);
    free(nb_container_of(work, nb_closing_t, work));
}

void nb_spool_close(nb_loop_t *loop, int fd)
{
    struct stat info;
    if (fd < 0)
        return;
    nb_closing_t *closing = NULL;
    if (fstat(fd, &info) == 0 && info.st_size >= LARGE)
        closing = calloc(1, sizeof(*closing));
    if (!closing) {
        close(fd);
        return;
    }
    closing->fd = fd;
    closing->work = (nb_work_t){.run = run_closing, .done = end_closing, .drop = end_closing};
    if (nb_offload(loop->mail, &closing->work) < 0)
        end_closing(&closing->work); /* no thread is available */
}

int nb_spool_keep(VALUE file)
{
    if (nb_io_is_closed(file))
        return -1;
    return fcntl(rb_io_descriptor(file), F_DUPFD_CLOEXEC, 0);
}
