/*
 * options.c - the environment of the synthetic GPU: SYNTHETIC_GPU_HBM, _SCHEDULE, _REPORT, _DEVICES. (_FAULT
 * is read in api.c; _DUMP names a file for PTX that is refused, in module.c.) A value that is not understood
 * stops the process: a test must not run on another machine than it asked for.
 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {
    .hbm_bytes = 4ull << 30,
    .schedule = SCHEDULE_EAGER,
    .schedule_name = "eager",
    .devices = 1,
};

static void refuse(const char *name, const char *value, const char *wanted)
{
    driver_log("%s=%s: %s wanted", name, value, wanted);
    exit(2);
}

static size_t read_size(const char *name, const char *text)
{
    char *end;
    double n = strtod(text, &end);
    switch (*end) {
    case 'k':
    case 'K':
        n *= 1024;
        end++;
        break;
    case 'm':
    case 'M':
        n *= 1024.0 * 1024;
        end++;
        break;
    case 'g':
    case 'G':
        n *= 1024.0 * 1024 * 1024;
        end++;
        break;
    default:
        break;
    }
    if (end[0] == 'i' && end[1] == 'B')
        end += 2;
    if (end == text || *end || n < (double)(4 * PAGE) || n > (double)(WINDOW_BYTES >> 3))
        refuse(name, text, "a size of at least 8M, with K, M or G");
    return (size_t)n & ~(size_t)PAGE_MASK;
}

void options_read(void)
{
    const char *text = getenv("SYNTHETIC_GPU_HBM");
    if (text && *text)
        options.hbm_bytes = read_size("SYNTHETIC_GPU_HBM", text);
    text = getenv("SYNTHETIC_GPU_DEVICES");
    if (text && *text) {
        options.devices = atoi(text);
        if (options.devices < 1 || options.devices > MAX_DEVICES)
            refuse("SYNTHETIC_GPU_DEVICES", text, "1 to 8");
    }
    text = getenv("SYNTHETIC_GPU_REPORT");
    if (text && *text)
        options.report = text;
    text = getenv("SYNTHETIC_GPU_SCHEDULE");
    if (!text || !*text)
        return;
    if (strcmp(text, "eager") == 0) {
        options.schedule = SCHEDULE_EAGER;
    } else if (strcmp(text, "lazy") == 0) {
        options.schedule = SCHEDULE_LAZY;
    } else if (strncmp(text, "random:", 7) == 0) {
        char *end;
        options.schedule = SCHEDULE_RANDOM;
        options.seed = strtoull(text + 7, &end, 0);
        if (end == text + 7 || *end)
            refuse("SYNTHETIC_GPU_SCHEDULE", text, "random:SEED with a number");
    } else {
        refuse("SYNTHETIC_GPU_SCHEDULE", text, "eager, lazy or random:SEED");
    }
    snprintf(options.schedule_name, sizeof(options.schedule_name), "%s", text);
}
