/*
 * options.h - the HBMSPILL_ environment variables.
 *
 * One table, HBMSPILL_OPTIONS, gives the struct, the parser, the warnings and what options_describe lists.
 * A variable that is unset or empty has its default; so has one that is malformed, with a warning. An unknown
 * variable whose name starts with HBMSPILL is a warning too, with the nearest name. Warnings are kept until
 * the process has initialised CUDA: the preload is inherited by shells and compilers, which must stay silent.
 *
 * Sizes are bytes. K, M, G, T and KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB are powers of 1000;
 * letters may be lower case, decimals are allowed ("1.5G"). A percentage stays one until somebody knows
 * what it is of.
 *
 * Threads: options_get may be called by any thread; its result is constant.
 */
#ifndef HBMSPILL_SHIM_OPTIONS_H
#define HBMSPILL_SHIM_OPTIONS_H

#include "shim/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_mode { OPTION_MODE_OFF, OPTION_MODE_OBSERVE, OPTION_MODE_ON };
enum option_policy { OPTION_POLICY_LRU, OPTION_POLICY_BIP, OPTION_POLICY_NEXTUSE };
enum option_pinned { OPTION_PINNED_OFF, OPTION_PINNED_ON };
enum option_closed { OPTION_CLOSED_AUTO, OPTION_CLOSED_ALL, OPTION_CLOSED_NONE };

/* A size, or a share of what is physically there. */
struct option_amount {
    enum { AMOUNT_UNSET, AMOUNT_BYTES, AMOUNT_PERCENT } kind;
    uint64_t bytes;
    double percent;
};

/* What the job is told the memory is. */
struct option_report {
    enum { REPORT_VIRTUAL, REPORT_PHYSICAL, REPORT_BYTES } kind;
    uint64_t bytes;
};

/* HBMSPILL_WINDOW: off, or the most operations to hold. */
enum { WINDOW_OFF = 0, WINDOW_AUTO = 16384 };

struct option_text {
    char text[1024];
};

/* HBMSPILL_PLAN: who makes schedules for rounds that repeat; or a file that has one. */
struct option_plan {
    enum { PLAN_AUTO, PLAN_GREEDY, PLAN_OFF, PLAN_FILE } kind;
    char path[1024];
};

/* HBMSPILL_LOG: an enum log_level for each subsystem. */
struct option_log {
    signed char level[LOG_SUBSYSTEMS];
};

/* HBMSPILL_NUMA: AUTO, OFF, or a node's number. UNSET: of one device, for which the one of all counts. */
enum { NUMA_AUTO = -1, NUMA_OFF = -2, NUMA_UNSET = -3 };

#define OPTION_TYPE_choice int
#define OPTION_TYPE_numa int
#define OPTION_TYPE_amount struct option_amount
#define OPTION_TYPE_size uint64_t
#define OPTION_TYPE_count unsigned int
#define OPTION_TYPE_report struct option_report
#define OPTION_TYPE_window unsigned int
#define OPTION_TYPE_plan struct option_plan
#define OPTION_TYPE_log struct option_log
#define OPTION_TYPE_text struct option_text

/*
 * X(field, kind, name, default, accepted form, hidden, text)
 * The accepted form of a choice is its values, separated by |, in the order of the enum it is stored as.
 */
#define HBMSPILL_OPTIONS(X)                                                                                  \
    X(mode, choice, "HBMSPILL", "on", "off|observe|on", false,                                               \
      "on: spill; observe: count, change nothing; off: do nothing at all")                                   \
    X(hbm_limit, amount, "HBMSPILL_HBM_LIMIT", "", "a size above 0 (8G, 512MiB) or up to 100%", false,       \
      "device memory to use; default: what is free at the first context less the reserve")                   \
    X(host_limit, amount, "HBMSPILL_HOST_LIMIT", "", "a size (32G, 512MiB) or up to 100%", false,            \
      "pinned host memory to use; default: half of what the machine can spare")                              \
    X(pinned, choice, "HBMSPILL_PINNED", "on", "off|on", false,                                              \
      "off: pinned memory the job asks for is the driver's, not from the pool that is kept pinned")          \
    X(host_decay, count, "HBMSPILL_HOST_DECAY_MS", "0", "a number of ms up to 2147483647; 0: never", false,  \
      "pinned memory that is idle for so long goes back to the system")                                      \
    X(trim_signal, choice, "HBMSPILL_TRIM_SIGNAL", "off", "off|usr1", false,                                 \
      "usr1: at SIGUSR1 idle pinned memory goes back to the system")                                         \
    X(numa, numa, "HBMSPILL_NUMA", "auto", "auto|off|the number of a node", false,                           \
      "the node for pinned memory; auto: the one next to the device")                                        \
    X(reserve, amount, "HBMSPILL_RESERVE", "", "a size (512M) or up to 100%", false,                         \
      "device memory left to modules, libraries and the driver")                                             \
    X(min_size, size, "HBMSPILL_MIN_SIZE", "1M", "a size (1M, 64KiB, 0)", false,                             \
      "allocations smaller than this are never spilled")                                                     \
    X(report, report, "HBMSPILL_REPORT", "virtual", "virtual|physical|a size (32G)", false,                  \
      "the device memory the job is told it has: device and host together, the device's own, or this much")  \
    X(slice, count, "HBMSPILL_SLICE", "1", "a number of bytes up to 2147483647; 0 leaves XLA alone", false,  \
      "value for --xla_multiheap_size_constraint_per_heap, which makes temporaries separate allocations")    \
    X(window, window, "HBMSPILL_WINDOW", "auto", "auto|off|a number of operations up to 16384", false,       \
      "how many operations may be held to see what they use before they are submitted; only once memory is " \
      "short")                                                                                               \
    X(strict, choice, "HBMSPILL_STRICT", "0", "0|1", false,                                                  \
      "1: a spilled address is unmapped at once, so that a missed access faults")                            \
    X(verify, choice, "HBMSPILL_VERIFY", "0", "0|1", false,                                                  \
      "1: what comes back is compared with what was moved out; a difference ends the process")               \
    X(policy, choice, "HBMSPILL_POLICY", "nextuse", "lru|bip|nextuse", false,                                \
      "what is spilled first: the least recently used; the same, but what came in last before that; or "     \
      "what "                                                                                                \
      "is needed furthest ahead where that is known")                                                        \
    X(plan, plan, "HBMSPILL_PLAN", "auto", "auto|greedy|off|a path (./round.plan)", false,                   \
      "schedules for rounds that repeat; auto: a greedy one at once, the best one from a process beside "    \
      "the "                                                                                                 \
      "job; a path: a plan file")                                                                            \
    X(prefetch, choice, "HBMSPILL_PREFETCH", "on", "off|on", false,                                          \
      "off: nothing comes in before the operation that needs it")                                            \
    X(ahead, count, "HBMSPILL_AHEAD", "0", "a number of frames up to 2147483647; 0: no limit", false,        \
      "how much may come in ahead of its use, in frames")                                                    \
    X(closed, choice, "HBMSPILL_CLOSED", "auto", "auto|all|none", false,                                     \
      "kernels taken to touch only what their parameters point into; auto: those that XLA loads itself")     \
    X(admitted, text, "HBMSPILL_ADMITTED", "", "a path", false,                                              \
      "more rows for the table of kernels that are known to be closed, or not to be (scripts/gpu-admit)")    \
    X(admit, text, "HBMSPILL_ADMIT", "", "a path", true,                                                     \
      "file for what is found out of kernels that are not known: each runs alone, with what it does not "    \
      "name inaccessible")                                                                                   \
    X(log, log, "HBMSPILL_LOG", "warn",                                                                      \
      "error|warn|info|debug|trace; with commas, NAME=LEVEL for one subsystem, ^NAME for none of its lines", \
      false, "what is said; a subsystem is the last word in a line's brackets (evict=debug,^plans)")         \
    X(log_file, text, "HBMSPILL_LOG_FILE", "", "a path; %p is the process id, %h the host's name", false,    \
      "where it is said; default: standard error")                                                           \
    X(stats, text, "HBMSPILL_STATS", "", "a path; %p is the process id, %h the host's name", false,          \
      "file for the statistics, written at exit: for Prometheus where it ends in .prom, else JSON")          \
    X(stats_every, count, "HBMSPILL_STATS_EVERY", "0",                                                       \
      "a number of seconds up to 2147483647; 0: at exit only", false,                                        \
      "how often that file is written besides, looked at when the job allocates or copies")                  \
    X(trace, text, "HBMSPILL_TRACE", "", "a path; %p is the process id, %h the host's name", false,          \
      "file to record what the job does with its memory, for hbmspill-replay")                               \
    X(trace_events, text, "HBMSPILL_TRACE_EVENTS", "", "a path; %p is the process id, %h the host's name",   \
      false,                                                                                                 \
      "file to write what happens when, for Perfetto and hbmspill report; it costs two timing events for "   \
      "each operation")                                                                                      \
    X(config, text, "HBMSPILL_CONFIG", "", "a path, or none", false,                                         \
      "a file of settings; default: ~/.config/hbmspill.conf, then /etc/hbmspill.conf")                       \
    X(test_root, text, "HBMSPILL_TEST_ROOT", "", "a directory", true,                                        \
      "what stands before /proc, /sys and /etc, for tests")                                                  \
    X(test_events_bytes, size, "HBMSPILL_TEST_EVENTS_BYTES", "0", "a size", true,                            \
      "where a file of events ends, for tests; 0: at its limit")                                             \
    X(test_slot, size, "HBMSPILL_TEST_SLOT", "0", "a size", true,                                            \
      "how much pinned memory is got in one piece at most, for tests; 0: as always")                         \
    X(test_reframe, count, "HBMSPILL_TEST_REFRAME", "0", "a number", true,                                   \
      "frames become so many times as large (2, 4 or 8) at the first round that is found, for tests; 0: as " \
      "always")                                                                                              \
    X(planner, text, "HBMSPILL_PLANNER", "", "a path", true, "the planner's program, for tests")             \
    X(test_mutation, text, "HBMSPILL_TEST_MUTATION", "", "a name", true, "a fault to make, for tests")       \
    X(inherited, text, "HBMSPILL_INHERITED", "", "(set by hbmspill itself)", true,                           \
      "what the parent process added to the environment")

/*
 * Those that may be given for one device: HBMSPILL_HBM_LIMIT_0, with the number that CUDA gives the device in
 * the process (CUDA_VISIBLE_DEVICES counts). X(field, kind)
 */
#define HBMSPILL_DEVICE_OPTIONS(X) X(hbm_limit, amount) X(reserve, amount) X(numa, numa)
enum { OPTION_DEVICES = 16 };

struct option_device {
#define OPTION_FIELD(field, kind) OPTION_TYPE_##kind field;
    HBMSPILL_DEVICE_OPTIONS(OPTION_FIELD)
#undef OPTION_FIELD
};

struct options {
    struct option_device device[OPTION_DEVICES]; /* unset where the one for all counts */
#define OPTION_FIELD(field, kind, name, fallback, form, hidden, text) OPTION_TYPE_##kind field;
    HBMSPILL_OPTIONS(OPTION_FIELD)
#undef OPTION_FIELD
};

enum { OPTION_WARNINGS_MAX = 16 };

/* Complaints of one parse, as lines without a newline. */
struct option_warnings {
    unsigned int count, dropped;
    char text[OPTION_WARNINGS_MAX][256];
};

/* The options of this process: from the environment and the files (options_file.h) the first time, constant
 * after. */
const struct options *options_get(void);

/* Those of one device: its own where they are set, else those of all. */
struct option_device options_of_device(const struct options *options, int device);

/* The complaints of that parse. */
const struct option_warnings *options_warnings(void);

/* Parses the variables of `environment` (as environ(7), NULL means empty). Both outputs are written in full.
 */
void options_parse(char *const *environment, struct options *options, struct option_warnings *warnings);

/* A list on top of what is set. from: stands before its complaints, NULL for the environment. */
void options_apply(char *const *list, const char *from, struct options *options,
                   struct option_warnings *warnings);

/* One more complaint, or one more that was dropped. */
__attribute__((format(printf, 2, 3))) void options_warn(struct option_warnings *warnings, const char *format,
                                                        ...);

/* A size as described above: 0, or -EINVAL, or -ERANGE where it does not fit 64 bits. */
int options_parse_size(const char *text, uint64_t *bytes);

/* What `amount` is where `whole` is there; `fallback` where it is unset. All in bytes. */
uint64_t options_amount(const struct option_amount *amount, uint64_t whole, uint64_t fallback);

/* Copies a path, %p replaced by the process id, %h by the host's name and %% by %. 0, or -ENAMETOOLONG. */
int options_expand_path(const char *path, char *buffer, size_t size);

/* Calls `visit` for every option that is not hidden, in the order of the table. */
void options_describe(void (*visit)(void *context, const char *name, const char *fallback, const char *form,
                                    const char *text),
                      void *context);

#endif
