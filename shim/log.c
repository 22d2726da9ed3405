/*
 * log.c - formatting into a buffer on the stack, one write(2) per line.
 */
#include "shim/log.h"

#include "shim/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOG_FD_UNOPENED = -1 };

atomic_int log_threshold = LOG_WARN;

static char log_path[PATH_MAX];
static atomic_int log_fd = LOG_FD_UNOPENED;

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

void log_configure(enum log_level level, const char *path)
{
    snprintf(log_path, sizeof log_path, "%s", path);
    atomic_store_explicit(&log_threshold, (int)level, memory_order_relaxed);
}

/*
 * The descriptor to write to. Two threads may open the file at the same time: the loser closes its own, so no
 * lock is needed (a lock could be held by another thread at fork).
 */
static int log_descriptor(void)
{
    int fd = atomic_load_explicit(&log_fd, memory_order_acquire);
    if (fd != LOG_FD_UNOPENED)
        return fd;

    int opened = STDERR_FILENO;
    char path[PATH_MAX];
    if (log_path[0] && options_expand_path(log_path, path, sizeof path) == 0) {
        opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (opened < 0)
            opened = STDERR_FILENO;
    }
    if (atomic_compare_exchange_strong(&log_fd, &fd, opened))
        return opened;
    if (opened != STDERR_FILENO)
        close(opened);
    return fd;
}

void log_line(enum log_level level, const char *subsystem, const char *format, ...)
{
    const int saved_errno = errno;
    char line[LOG_LINE_MAX];
    const size_t room = sizeof line; /* the newline takes the place of the final zero */

    int head = snprintf(line, room, "hbmspill: %s [%ld %s] ", level_names[level], (long)getpid(), subsystem);
    size_t length = head < 0 ? 0 : (size_t)head;
    if (length > room - 1)
        length = room - 1;
    va_list arguments;
    va_start(arguments, format);
    errno = saved_errno; /* for %m */
    int body = vsnprintf(line + length, room - length, format, arguments);
    va_end(arguments);
    if (body > 0)
        length += (size_t)body;
    if (length > room - 1)
        length = room - 1;
    /* One event is one line, whatever a message quotes. */
    for (char *c = line; c < line + length; c++)
        if (*c == '\n')
            *c = ' ';
    line[length++] = '\n';

    int fd = log_descriptor();
    if (write(fd, line, length) < 0 && errno == EBADF && fd != STDERR_FILENO)
        (void)!write(STDERR_FILENO, line, length); /* the job closed descriptors it did not know */
    errno = saved_errno;
}
