/*
 * options.c - the environment of the synthetic GPU: SYNTHETIC_GPU_HBM, _SCHEDULE, _REPORT, _DEVICES,
 * _HOST_VMM, _HOST_NODES, and those of virtual time: _CLOCK, _LINK, _COMPUTE_SCALE, _SIZE_SCALE,
 * _DRIVER_SCALE, _RECORD, _HISTORY.
 * (_FAULT is read in api.c; _DUMP names a file for PTX that is refused, in module.c.) A value that is not
 * understood stops the process: a test must not run on another machine than it asked for.
 */
#include "memory.h"
#include "model/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options options = {
    .hbm_bytes = 4ull << 30,
    .schedule = SCHEDULE_EAGER,
    .schedule_name = "eager",
    .devices = 1,
    .host_nodes = 1,
    .compute_scale = 1,
    .size_scale = 1,
    .driver_scale = 1,
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

static bool read_scale(const char *name, double *out)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return false;
    *out = strtod(text, &end);
    if (*end || !(*out > 0) || *out > 1e9)
        refuse(name, text, "a number above 0");
    return true;
}

static bool link_set(double in, double out, double in_both, double out_both)
{
    options.link_in = in;
    options.link_out = out;
    options.link_in_both = in_both;
    options.link_out_both = out_both;
    return in > 0 && out > 0 && in_both > 0 && out_both > 0 && in < 1e15 && out < 1e15 && in_both <= in &&
           out_both <= out;
}

/* A preset's name; IN,OUT or IN,OUT,IN_BOTH,OUT_BOTH in 1e9 bytes a second. */
static bool link_parse(const char *text)
{
    double rate[4];
    int n = 0, length = 0;
#define PRESET(name, in, out, in_both, out_both)                                                             \
    if (strcmp(text, #name) == 0)                                                                            \
        return link_set(in, out, in_both, out_both);
    MACHINE_LINKS(PRESET)
#undef PRESET
    while (n < 4 && sscanf(text, "%lf%n", &rate[n], &length) == 1) {
        rate[n++] *= 1e9;
        text += length;
        if (*text != ',')
            break;
        text++;
    }
    if (*text || (n != 2 && n != 4))
        return false;
    return link_set(rate[0], rate[1], rate[n - 2], rate[n - 1]);
}

static void read_clock(void)
{
    const char *text = getenv("SYNTHETIC_GPU_CLOCK");
    options.clock = text && *text && strcmp(text, "0") != 0;
    options.clock |= read_scale("SYNTHETIC_GPU_COMPUTE_SCALE", &options.compute_scale);
    options.clock |= read_scale("SYNTHETIC_GPU_SIZE_SCALE", &options.size_scale);
    options.clock |= read_scale("SYNTHETIC_GPU_DRIVER_SCALE", &options.driver_scale);
    text = getenv("SYNTHETIC_GPU_RECORD");
    if (text && *text) {
        options.record = text;
        options.clock = true;
    }
    text = getenv("SYNTHETIC_GPU_HISTORY");
    if (text && *text) {
        options.history = text;
        options.clock = true;
    }
    text = getenv("SYNTHETIC_GPU_LINK");
    if (text && *text)
        options.clock = true;
    else
        text = "pcie5";
    if (!link_parse(text))
        refuse(
            "SYNTHETIC_GPU_LINK", text,
            "pcie4, pcie5, c2c, IN,OUT or IN,OUT,IN_BOTH,OUT_BOTH in GB/s, both at once not faster than one");
    snprintf(options.link_name, sizeof(options.link_name), "%s", text);
}

void options_path(const char *pattern, char *out, size_t size)
{
    const char *end = out + size - 16;
    for (const char *s = pattern; *s && out < end; s++) {
        if (s[0] == '%' && s[1] == 'p') {
            out += sprintf(out, "%d", (int)getpid());
            s++;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
}

void options_read(void)
{
    read_clock();
    const char *text = getenv("SYNTHETIC_GPU_HBM");
    if (text && *text)
        options.hbm_bytes = read_size("SYNTHETIC_GPU_HBM", text);
    text = getenv("SYNTHETIC_GPU_DEVICES");
    if (text && *text) {
        options.devices = atoi(text);
        if (options.devices < 1 || options.devices > MAX_DEVICES)
            refuse("SYNTHETIC_GPU_DEVICES", text, "1 to 8");
    }
    text = getenv("SYNTHETIC_GPU_HOST_VMM");
    if (text && *text) {
        static const char *const kinds[] = {
            [HOST_VMM_ON] = "on",
            [HOST_VMM_OFF] = "off",
            [HOST_VMM_UNKNOWN] = "unknown",
            [HOST_VMM_REFUSED] = "refused",
        };
        unsigned kind = 0;
        while (kind < ARRAY_SIZE(kinds) && strcmp(text, kinds[kind]) != 0)
            kind++;
        if (kind == ARRAY_SIZE(kinds))
            refuse("SYNTHETIC_GPU_HOST_VMM", text, "on, off, unknown or refused");
        options.host_vmm = (enum host_vmm)kind;
    }
    text = getenv("SYNTHETIC_GPU_HOST_NODES");
    if (text && *text) {
        char rest;
        if (sscanf(text, "%d,%d%c", &options.host_nodes, &options.host_node, &rest) != 2 ||
            options.host_nodes < 1 || options.host_nodes > MAX_HOST_NODES || options.host_node < 0 ||
            options.host_node >= options.host_nodes)
            refuse("SYNTHETIC_GPU_HOST_NODES", text, "COUNT,NEAREST: 1 to 8 nodes, and the nearest of them");
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
