#include "hooks/report.h"
#include "cache/lock_in_time.h"
#include "cache/stall.h"
#include "hooks/costs.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/held.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

struct statistics hook_counters;

/* Over all devices. */
struct totals {
    struct statistics sum;
    double stalled_nanoseconds, stalled_bytes;
};

static void add_up(struct totals *totals)
{
    struct gpu *gpu;

    *totals = (struct totals){.sum = hook_counters};
    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        const struct statistics *one = cache_statistics(gpu->cache);

#define ADD(name, unit, text) totals->sum.name += one->name;
        HBMSPILL_COUNTERS(ADD)
#undef ADD
        totals->stalled_nanoseconds += stall_nanoseconds(one);
        totals->stalled_bytes += stall_bytes(one);
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

static void make_json(struct text *text, const struct totals *totals)
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
        text_put(text, ",\n     ");
        pinned_put_json(text, gpu);
        text_put(text, "}");
    }
    text_put(text, "%s],\n  \"dearest\": ", gpu_at(0) ? "\n  " : "");
    costs_put_json(text);
    text_put(text, "\n}\n");
}

/*
 * Written beside and renamed, so that a reader never sees half of it. A device, a pipe or a link (/dev/null,
 * /dev/stderr) is written as it is: a rename would put a file in its place. Nobody is waited for at a pipe.
 */
static void write_file(const char *path, const struct text *text)
{
    struct stat status;
    bool in_place = !lstat(path, &status) && !S_ISREG(status.st_mode);
    char beside[1200];
    size_t written = 0;
    int fd;

    if (snprintf(beside, sizeof beside, "%s%s", path, in_place ? "" : ".part") >= (int)sizeof beside)
        return;
    fd = open(beside, O_WRONLY | O_CLOEXEC | (in_place ? O_APPEND | O_NONBLOCK : O_CREAT | O_TRUNC), 0666);
    if (fd < 0) {
        log_warn("stats", "%s cannot be written: %s (HBMSPILL_STATS)", path, strerror(errno));
        return;
    }
    while (written < text->length) {
        ssize_t n = write(fd, text->bytes + written, text->length - written);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        written += (size_t)n;
    }
    close(fd);
    if (written < text->length || (!in_place && rename(beside, path))) {
        log_warn("stats", "%s cannot be written: %s (HBMSPILL_STATS)", path, strerror(errno));
        if (!in_place)
            unlink(beside);
    }
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

void report_exit(void)
{
    const struct options *options = options_get();
    const struct statistics *sum;
    struct totals totals;
    uint64_t operations;
    static struct text text;
    char path[1100];

    if (!caches_answer()) {
        log_warn("exit", "no statistics: the process ends within an operation that does not end");
        return;
    }
    add_up(&totals);
    sum = &totals.sum;
    operations = sum->launches + sum->graph_launches + sum->copies;
    if (sum->peak_spilled_bytes) /* data copied straight into the host tier was never evicted */
        log_line(
            LOG_INFO, "exit",
            "spilled: at most %llu MiB lived in host memory; %llu MiB went out and %llu MiB came in, in %llu "
            "evictions; HBM peak %llu MiB; %llu of %llu operations waited for a copy, some %.3f s in all for "
            "%llu MiB that were not there in time",
            MIB(sum->peak_spilled_bytes), MIB(sum->bytes_out), MIB(sum->bytes_in),
            (unsigned long long)sum->evictions, MIB(sum->peak_hbm_bytes),
            (unsigned long long)sum->copies_waited_for, (unsigned long long)operations,
            totals.stalled_nanoseconds * 1e-9, MIB((uint64_t)totals.stalled_bytes));
    if (sum->peak_spilled_bytes)
        costs_log();
    if (!options->stats.text[0])
        return;
    if (options_expand_path(options->stats.text, path, sizeof path)) {
        log_warn("stats", "HBMSPILL_STATS is too long a path");
        return;
    }
    make_json(&text, &totals);
    if (text.cut)
        log_warn("stats", "there is more to say than %zu bytes hold: the statistics are incomplete",
                 sizeof text.bytes);
    write_file(path, &text);
}
