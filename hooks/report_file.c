#include "hooks/report_file.h"
#include "cache/write_all.h"
#include "hooks/gpu.h"
#include "shim/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool report_is_prometheus(const char *path)
{
    static const char ending[] = ".prom";
    size_t length = strlen(path);

    return length >= sizeof ending && !strcmp(path + length - (sizeof ending - 1), ending);
}

static void put_head(struct text *text, const char *name, const char *ending, const char *type,
                     const char *help)
{
    text_put(text, "# HELP hbmspill_%s%s %s\n# TYPE hbmspill_%s%s %s\n", name, ending, help, name, ending,
             type);
}

/* Counters only go up and end in _total; a peak, or what is held now, is a gauge. */
static void put_counter(struct text *text, const char *name, const char *unit, const char *help,
                        uint64_t value)
{
    bool gauge = !strcmp(unit, "peak bytes") || !strcmp(unit, "bytes now");
    const char *ending = gauge ? "" : "_total";

    put_head(text, name, ending, gauge ? "gauge" : "counter", help);
    text_put(text, "hbmspill_%s%s{pid=\"%d\"} %llu\n", name, ending, (int)getpid(),
             (unsigned long long)value);
}

static void put_devices(struct text *text)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } gauges[] = {
        {"device_hbm_limit_bytes", "device memory to use", offsetof(struct cache_usage, hbm_limit)},
        {"device_frame_bytes", "device memory in frames", offsetof(struct cache_usage, frames)},
        {"device_outside_bytes", "device memory of the job that is not moved",
         offsetof(struct cache_usage, outside)},
        {"device_host_bytes", "pinned host memory for what is spilled", offsetof(struct cache_usage, host)},
        {"device_spilled_bytes", "what is in host memory only", offsetof(struct cache_usage, spilled)},
        {"device_live_bytes", "what the job has asked for and not given back",
         offsetof(struct cache_usage, live)},
    };
    struct cache_usage usage;
    struct gpu *gpu;

    for (unsigned k = 0; gpu_at(0) && k < sizeof gauges / sizeof *gauges; k++) {
        put_head(text, gauges[k].name, "", "gauge", gauges[k].help);
        for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
            uint64_t value;

            cache_usage(gpu->cache, &usage);
            memcpy(&value, (const char *)&usage + gauges[k].offset, sizeof value);
            text_put(text, "hbmspill_%s{pid=\"%d\",device=\"%d\"} %llu\n", gauges[k].name, (int)getpid(),
                     gpu->device, (unsigned long long)value);
        }
    }
}

void report_put_prometheus(struct text *text, const struct statistics *sum)
{
    text->length = 0;
    text->cut = false;
#define PUT(name, unit, help) put_counter(text, #name, unit, help, sum->name);
    HBMSPILL_COUNTERS(PUT)
#undef PUT
    put_devices(text);
}

/*
 * Written beside and renamed, so that a reader never sees half of it. A device, a pipe or a link (/dev/null,
 * /dev/stderr) is written as it is: a rename would put a file in its place. Nobody is waited for at a pipe.
 */
void report_write(const char *path, const struct text *text)
{
    struct stat status;
    bool in_place = !lstat(path, &status) && !S_ISREG(status.st_mode);
    char beside[1200];
    int fd, error;

    if (snprintf(beside, sizeof beside, "%s%s", path, in_place ? "" : ".part") >= (int)sizeof beside)
        return;
    fd = open(beside, O_WRONLY | O_CLOEXEC | (in_place ? O_APPEND | O_NONBLOCK : O_CREAT | O_TRUNC), 0666);
    if (fd < 0) {
        log_warn(LOG_IN_STATS, "%s cannot be written: %s (HBMSPILL_STATS)", path, strerror(errno));
        return;
    }
    error = write_all(fd, text->bytes, text->length);
    close(fd);
    if (!error && !in_place && rename(beside, path))
        error = -errno;
    if (error) {
        log_warn(LOG_IN_STATS, "%s cannot be written: %s (HBMSPILL_STATS)", path, strerror(-error));
        if (!in_place)
            unlink(beside);
    }
}
