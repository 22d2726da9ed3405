/*
 * log.h - one line per event, by one write(2).
 *
 * A line is `hbmspill: LEVEL [PID SUBSYSTEM] text`, or `[PID gpuN SUBSYSTEM]` where it is about one device.
 * Nothing but write(2) is needed, so that a line can be said before anything else works and from any thread;
 * lines are at most LOG_LINE_MAX bytes, longer ones are cut. Where HBMSPILL_LOG_FILE names a file, lines go
 * there from the first one on (opened then, not at start); if that fails they go to standard error.
 *
 * A line that is the same as the one before is counted and not written; how often that was is said ahead of
 * the next other line, or by log_flush.
 *
 * Threads: all of this may be called from any thread at any time, not from a signal handler.
 * Errors: none are reported; errno is preserved.
 */
#ifndef HBMSPILL_SHIM_LOG_H
#define HBMSPILL_SHIM_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

/* In the order of HBMSPILL_LOG's accepted form (options.h). */
enum log_level { LOG_SILENT = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Who says it: X(LOG_IN_NAME, the word in lines and in HBMSPILL_LOG). */
#define HBMSPILL_SUBSYSTEMS(X)                                                                               \
    X(ADMIT, "admit")                                                                                        \
    X(ALLOC, "alloc")                                                                                        \
    X(AUDIT, "audit")                                                                                        \
    X(DEAREST, "dearest")                                                                                    \
    X(ENVIRONMENT, "environment")                                                                            \
    X(EVENTS, "events")                                                                                      \
    X(EVICT, "evict")                                                                                        \
    X(EXIT, "exit")                                                                                          \
    X(FILL, "fill")                                                                                          \
    X(FULL, "full")                                                                                          \
    X(GPU, "gpu")                                                                                            \
    X(GZIP, "gzip")                                                                                          \
    X(HOOKS, "hooks")                                                                                        \
    X(HOST, "host")                                                                                          \
    X(KERNEL, "kernel")                                                                                      \
    X(KERNELS, "kernels")                                                                                    \
    X(LINK, "link")                                                                                          \
    X(LIVE, "live")                                                                                          \
    X(LOADER, "loader")                                                                                      \
    X(OPTIONS, "options")                                                                                    \
    X(PLANS, "plans")                                                                                        \
    X(STATS, "stats")                                                                                        \
    X(TRACE, "trace")                                                                                        \
    X(VERIFY, "verify")

enum log_subsystem {
#define LOG_SUBSYSTEM(name, word) LOG_IN_##name,
    HBMSPILL_SUBSYSTEMS(LOG_SUBSYSTEM)
#undef LOG_SUBSYSTEM
        LOG_SUBSYSTEMS
};

enum { LOG_LINE_MAX = 1024, LOG_NO_DEVICE = -1 };

extern atomic_schar log_threshold[LOG_SUBSYSTEMS];

static inline bool log_wants(enum log_level level, enum log_subsystem subsystem)
{
    return (int)level <= atomic_load_explicit(&log_threshold[subsystem], memory_order_relaxed);
}

/* Sets each subsystem's level (enum log_level), and the file ("" for standard error; %p is the process id).
 * Both are copied. */
void log_configure(const signed char levels[LOG_SUBSYSTEMS], const char *path);

/* Writes a line whatever the level; use the macros. device: LOG_NO_DEVICE, or its number in the process. */
void log_line(enum log_level level, enum log_subsystem subsystem, int device, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Says how often the last line was repeated, where it was: at exit. */
void log_flush(void);

/* In the child of a fork: what other threads were in the middle of saying is not its. */
void log_fork_child(void);

/* About one device. */
#define log_gpu(level, subsystem, device, ...)                                                               \
    do {                                                                                                     \
        if (log_wants(level, subsystem))                                                                     \
            log_line(level, subsystem, device, __VA_ARGS__);                                                 \
    } while (0)

#define log_at(level, subsystem, ...) log_gpu(level, subsystem, LOG_NO_DEVICE, __VA_ARGS__)
#define log_error(subsystem, ...) log_at(LOG_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...) log_at(LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_at(LOG_INFO, subsystem, __VA_ARGS__)
#define log_debug(subsystem, ...) log_at(LOG_DEBUG, subsystem, __VA_ARGS__)
#define log_trace(subsystem, ...) log_at(LOG_TRACE, subsystem, __VA_ARGS__)

/* The same, the first time this place is reached in the process. */
#define log_gpu_once(level, subsystem, device, ...)                                                          \
    do {                                                                                                     \
        static atomic_flag log_said = ATOMIC_FLAG_INIT;                                                      \
        if (log_wants(level, subsystem) &&                                                                   \
            !atomic_flag_test_and_set_explicit(&log_said, memory_order_relaxed))                             \
            log_line(level, subsystem, device, __VA_ARGS__);                                                 \
    } while (0)

#define log_once(level, subsystem, ...) log_gpu_once(level, subsystem, LOG_NO_DEVICE, __VA_ARGS__)

#endif
