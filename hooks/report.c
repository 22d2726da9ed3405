#include "hooks/report.h"
#include "cache/lock_in_time.h"
#include "cache/stall.h"
#include "hooks/costs.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/held.h"
#include "hooks/report_file.h"
#include "shim/log.h"
#include "shim/options.h"
#include <stdio.h>
#include <time.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

#define SECOND UINT64_C(1000000000)

struct statistics hook_counters;

/* HBMSPILL_STATS_EVERY: when it is next time, 0 before the first look; one thread writes. */
static _Atomic uint64_t next_report;
static atomic_bool writing, ending;

static uint64_t started; /* when the job had started CUDA; written once, before the library is active */

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

void report_start(void)
{
    started = now();
}

/* Over all devices. */
struct totals {
    struct statistics sum;
    uint64_t operations; /* begun */
    double stalled_nanoseconds, stalled_bytes;
};

static void add_up(struct totals *totals)
{
    struct cache_usage usage;
    struct statistics one;
    struct gpu *gpu;

    *totals = (struct totals){0};
#define NOW(name, unit, text) totals->sum.name = count_now(name);
    HBMSPILL_COUNTERS(NOW)
#undef NOW
    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        cache_counters(gpu->cache, &one);
#define ADD(name, unit, text) totals->sum.name += one.name;
        HBMSPILL_COUNTERS(ADD)
#undef ADD
        totals->stalled_nanoseconds += stall_nanoseconds(&one);
        totals->stalled_bytes += stall_bytes(&one);
        cache_usage(gpu->cache, &usage);
        totals->operations += usage.operations;
    }
}

static void put_link(struct text *text, const struct link *link)
{
    struct link_rates rates;
    bool measured = link_known(link, &rates);

    text_put(
        text,
        "\"link_measured\": %s, \"link_in_bytes_per_second\": %.0f, \"link_out_bytes_per_second\": %.0f, "
        "\"link_in_both_bytes_per_second\": %.0f, \"link_out_both_bytes_per_second\": %.0f, "
        "\"link_measuring_seconds\": %.6f",
        measured ? "true" : "false", rates.in, rates.out, rates.in_both, rates.out_both,
        measured ? link->seconds : 0);
}

/* whole: with what takes a search of all records, or of the machine's pages. */
static void make_json(struct text *text, const struct totals *totals, bool whole)
{
    const struct statistics *sum = &totals->sum;
    struct cache_usage usage;
    struct gpu *gpu;

    text->length = 0;
    text->cut = false;
    text_put(text, "{\n  \"version\": 1,\n  \"mode\": \"%s\"",
             shim_mode() == SHIM_ON        ? "on"
             : shim_mode() == SHIM_OBSERVE ? "observe"
                                           : "off");
#define PUT(name, unit, counter_text)                                                                        \
    text_put(text, ",\n  \"%s\": %llu", #name, (unsigned long long)sum->name);
    HBMSPILL_COUNTERS(PUT)
#undef PUT
    text_put(text, ",\n  \"stalled_seconds\": %.9f,\n  \"stalled_bytes\": %.0f",
             totals->stalled_nanoseconds * 1e-9, totals->stalled_bytes);
    if (whole)
        held_put_json(text);
    pinned_put_account(text);
    text_put(text, ",\n  \"devices\": [");
    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        cache_usage(gpu->cache, &usage);
        text_put(text,
                 "%s\n    {\"device\": %d, \"hbm_limit\": %llu, \"host_limit\": %llu, \"frame_bytes\": %llu, "
                 "\"outside_bytes\": %llu, \"host_bytes\": %llu, \"live_bytes\": %llu,\n     ",
                 i ? "," : "", gpu->device, (unsigned long long)usage.hbm_limit,
                 (unsigned long long)usage.host_limit, (unsigned long long)usage.frames,
                 (unsigned long long)usage.outside, (unsigned long long)usage.host,
                 (unsigned long long)usage.live);
        put_link(text, &gpu->link);
        if (whole) {
            text_put(text, ",\n     ");
            pinned_put_json(text, gpu);
        }
        text_put(text, "}");
    }
    text_put(text, "%s]", gpu_at(0) ? "\n  " : "");
    if (whole) {
        text_put(text, ",\n  \"dearest\": ");
        costs_put_json(text);
    }
    text_put(text, "\n}\n");
}

/* None of the caches has a lock that was left behind for good. */
static bool caches_answer(void)
{
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++)
        if (!cache_answers(gpu->cache, EXIT_PATIENCE_MS))
            return false;
    return true;
}

static void write_statistics(struct text *text, const struct totals *totals, bool whole)
{
    char path[1100];

    if (options_expand_path(options_get()->stats.text, path, sizeof path)) {
        log_once(LOG_WARN, LOG_IN_STATS, "HBMSPILL_STATS is too long a path");
        return;
    }
    if (report_is_prometheus(path))
        report_put_prometheus(text, &totals->sum);
    else
        make_json(text, totals, whole);
    if (text->cut)
        log_once(LOG_WARN, LOG_IN_STATS,
                 "there is more to say than %zu bytes hold: the statistics are incomplete",
                 sizeof text->bytes);
    report_write(path, text);
}

/* Whoever writes at the moment is let finish: he writes the same file. */
static void stop_ticking(void)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    atomic_store(&ending, true);
    for (unsigned i = 0; atomic_load(&writing) && i < EXIT_PATIENCE_MS; i++)
        nanosleep(&millisecond, NULL);
}

/*
 * The one line of a job that spilled. It is information, but said by default, since who sees no other line
 * has to know that it was not all in HBM; only who wants errors alone is not told. The stalls are in the
 * device's time, all of it is the host's.
 */
static void say_what_spilled(const struct totals *totals)
{
    const struct statistics *sum = &totals->sum;
    const double in = (double)sum->bytes_in, late = totals->stalled_bytes < in ? totals->stalled_bytes : in;
    char in_time[32] = "", linked[64] = "";

    if (!log_wants(LOG_WARN, LOG_IN_EXIT))
        return;
    if (sum->bytes_in)
        snprintf(in_time, sizeof in_time, " (%.0f %% in time)", 100 * (1 - late / in));
    if (sum->linked_operations)
        snprintf(linked, sizeof linked, ", %llu reached what is spilled over the link",
                 (unsigned long long)sum->linked_operations);
    log_line(LOG_INFO, LOG_IN_EXIT, LOG_NO_DEVICE,
             "spilled: at most %llu MiB lived in host memory; %llu MiB went out and %llu MiB came in%s, in "
             "%llu evictions; HBM peak %llu MiB; streams stood still for some %.3f of %.1f s since CUDA was "
             "started; %llu of %llu operations waited for a copy%s",
             MIB(sum->peak_spilled_bytes), MIB(sum->bytes_out), MIB(sum->bytes_in), in_time,
             (unsigned long long)sum->evictions, MIB(sum->peak_hbm_bytes), totals->stalled_nanoseconds * 1e-9,
             (double)(now() - started) * 1e-9, (unsigned long long)sum->copies_waited_for,
             (unsigned long long)totals->operations, linked);
}

void report_exit(void)
{
    const struct options *options = options_get();
    const struct statistics *sum;
    struct totals totals;
    static struct text text;

    stop_ticking();
    if (!caches_answer()) {
        log_warn(LOG_IN_EXIT, "no statistics: the process ends within an operation that does not end");
        return;
    }
    add_up(&totals);
    sum = &totals.sum;
    if (sum->peak_spilled_bytes) /* data copied straight into the host tier was never evicted */
        say_what_spilled(&totals);
    if (sum->peak_spilled_bytes)
        costs_log();
    if (options->stats.text[0])
        write_statistics(&text, &totals, true);
}

void report_tick(void)
{
    static struct text text;
    const struct options *options = options_get();
    uint64_t due, time;
    struct totals totals;

    if (!options->stats_every || !options->stats.text[0])
        return;
    time = now();
    due = atomic_load_explicit(&next_report, memory_order_relaxed);
    if (time < due || atomic_exchange(&writing, true))
        return;
    if (due && !atomic_load(&ending)) {
        add_up(&totals);
        write_statistics(&text, &totals, false);
    }
    atomic_store(&next_report, time + options->stats_every * SECOND);
    atomic_store(&writing, false);
}
