/*
 * log.h - one line per event, by one write(2).
 *
 * A line is `hbmspill: LEVEL [PID SUBSYSTEM] text`. Nothing but write(2) is needed, so that a line can be
 * said before anything else works and from any thread; lines are at most LOG_LINE_MAX bytes, longer ones are
 * cut. Where HBMSPILL_LOG_FILE names a file, lines go there from the first one on (opened then, not at
 * start); if that fails they go to standard error.
 *
 * Threads: all of this may be called from any thread at any time, not from a signal handler.
 * Errors: none are reported; errno is preserved.
 */
#ifndef HBMSPILL_SHIM_LOG_H
#define HBMSPILL_SHIM_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

/* In the order of HBMSPILL_LOG's accepted form (options.h). */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

enum { LOG_LINE_MAX = 1024 };

extern atomic_int log_threshold;

static inline bool log_wants(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_threshold, memory_order_relaxed);
}

/* Sets the level, and the file ("" for standard error; %p is the process id). The path is copied. */
void log_configure(enum log_level level, const char *path);

/* Writes a line whatever the level; use the macros. `subsystem` is a word or two: "loader", "gpu0 evict". */
void log_line(enum log_level level, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_at(level, subsystem, ...)                                                                        \
    do {                                                                                                     \
        if (log_wants(level))                                                                                \
            log_line(level, subsystem, __VA_ARGS__);                                                         \
    } while (0)

#define log_error(subsystem, ...) log_at(LOG_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...) log_at(LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_at(LOG_INFO, subsystem, __VA_ARGS__)
#define log_debug(subsystem, ...) log_at(LOG_DEBUG, subsystem, __VA_ARGS__)
#define log_trace(subsystem, ...) log_at(LOG_TRACE, subsystem, __VA_ARGS__)

/* As log_at, the first time this place is reached in the process. */
#define log_once(level, subsystem, ...)                                                                      \
    do {                                                                                                     \
        static atomic_flag log_said = ATOMIC_FLAG_INIT;                                                      \
        if (log_wants(level) && !atomic_flag_test_and_set_explicit(&log_said, memory_order_relaxed))         \
            log_line(level, subsystem, __VA_ARGS__);                                                         \
    } while (0)

#endif
