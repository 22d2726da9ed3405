/*
 * log.c - formatting into a buffer on the stack, one write(2) per line that is not a repeat.
 */
#include "shim/log.h"

#include "shim/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOG_FD_UNOPENED = -1, LOG_PATIENCE = 1000 };

#define WARN(name, word) LOG_WARN,
atomic_schar log_threshold[LOG_SUBSYSTEMS] = {HBMSPILL_SUBSYSTEMS(WARN)};
#undef WARN

static char log_path[PATH_MAX];
static atomic_int log_fd = LOG_FD_UNOPENED;

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static const char *const subsystem_names[] = {
#define WORD(name, word) word,
    HBMSPILL_SUBSYSTEMS(WORD)
#undef WORD
};

/*
 * What was said last. Guarded by `saying', which nobody waits for beyond LOG_PATIENCE: its owner may be
 * frozen (a signal handler that calls exit), or in a write that blocks. A line that does not get it is
 * written all the same, and not counted.
 */
static atomic_flag saying = ATOMIC_FLAG_INIT;
static struct {
    char line[LOG_LINE_MAX];
    size_t length, head;
    pid_t pid;
    unsigned long repeats; /* times it came again and was not written */
} last;

void log_configure(const signed char levels[LOG_SUBSYSTEMS], const char *path)
{
    snprintf(log_path, sizeof log_path, "%s", path);
    for (unsigned i = 0; i < LOG_SUBSYSTEMS; i++)
        atomic_store_explicit(&log_threshold[i], levels[i], memory_order_relaxed);
}

/* Ahead of the first line, which is not going where it was to. */
static void say_no_file(int error)
{
    char line[LOG_LINE_MAX];
    int length =
        snprintf(line, sizeof line, "hbmspill: warn [%ld options] HBMSPILL_LOG_FILE=%.256s ignored: %s\n",
                 (long)getpid(), log_path, strerror(error));

    (void)!write(STDERR_FILENO, line, (size_t)length);
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

    int opened = STDERR_FILENO, error = 0;
    char path[PATH_MAX];
    if (log_path[0]) {
        error = -options_expand_path(log_path, path, sizeof path);
        if (!error && (opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0)
            error = errno;
        if (error)
            opened = STDERR_FILENO;
    }
    if (atomic_compare_exchange_strong(&log_fd, &fd, opened)) {
        if (error)
            say_no_file(error);
        return opened;
    }
    if (opened != STDERR_FILENO)
        close(opened);
    return fd;
}

static void put(const char *line, size_t length)
{
    int fd = log_descriptor();

    if (write(fd, line, length) < 0 && errno == EBADF && fd != STDERR_FILENO)
        (void)!write(STDERR_FILENO, line, length); /* the job closed descriptors it did not know */
}

static bool begin_saying(void)
{
    for (unsigned i = 0; atomic_flag_test_and_set_explicit(&saying, memory_order_acquire); i++) {
        if (i == LOG_PATIENCE)
            return false;
        sched_yield();
    }
    return true;
}

static void end_saying(void)
{
    atomic_flag_clear_explicit(&saying, memory_order_release);
}

/* With `saying'. A copy of the process made without fork handlers (vfork) does not count its parent's. */
static void say_repeats(pid_t pid)
{
    char line[LOG_LINE_MAX + 64];
    unsigned long repeats = last.repeats;
    int length;

    last.repeats = 0;
    if (!repeats || last.pid != pid)
        return;
    length = snprintf(line, sizeof line, "%.*slast line %lu time%s more\n", (int)last.head, last.line,
                      repeats, repeats == 1 ? "" : "s");
    put(line, (size_t)length);
}

/* head: the bytes of it ahead of the text. */
static void say(const char *line, size_t length, size_t head)
{
    const pid_t pid = getpid();

    if (!begin_saying()) {
        put(line, length);
        return;
    }
    if (length == last.length && !memcmp(line, last.line, length)) {
        last.repeats++;
    } else {
        say_repeats(pid);
        memcpy(last.line, line, length);
        last.length = length;
        last.head = head;
        last.pid = pid;
        put(line, length);
    }
    end_saying();
}

void log_flush(void)
{
    const int saved_errno = errno;

    if (begin_saying()) {
        say_repeats(getpid());
        end_saying();
    }
    errno = saved_errno;
}

void log_fork_child(void)
{
    last.repeats = 0;
    last.length = 0;
    end_saying();
}

void log_line(enum log_level level, enum log_subsystem subsystem, int device, const char *format, ...)
{
    const int saved_errno = errno;
    char line[LOG_LINE_MAX], gpu[16] = "";
    const size_t room = sizeof line; /* the newline takes the place of the final zero */

    if (device >= 0)
        snprintf(gpu, sizeof gpu, "gpu%d ", device);
    int head = snprintf(line, room, "hbmspill: %s [%ld %s%s] ", level_names[level], (long)getpid(), gpu,
                        subsystem_names[subsystem]);
    size_t length = head < 0 ? 0 : (size_t)head;
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
    say(line, length, head < 0 ? 0 : (size_t)head);
    errno = saved_errno;
}
